"""Options for user data: defaults, and validation of combinations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gsx.errors import UsageError
from gsx.names import name_problem, shown
from gsx.stages.chem.limits import MAX_ATOMS
from gsx.stages.prepare.dataset import check_environments, resolve_options
from gsx.stages.prepare.splitting import SplitRule

ENVIRONMENTS = 5
_MOST_ATOMS = 1_000_000
_RATIOS = {
    "domain-sorted": (0.8, 0.1, 0.1),
    "random": (0.8, 0.1, 0.1),
    "column": (0.8, 0.1, 0.1),
    "quantile": (0.5, 0.4, 0.05),
}
_COMMON: Mapping[str, Any] = {
    "file": "",
    "name": "",
    "domain": "size",
    "rule": "domain-sorted",
    "direction": "ascending",
    "environments": ENVIRONMENTS,
    "task": "auto",
    "metric": "auto",
    "strict": False,
    "divide_domains": False,
    "min_test_per_class": 0,
}
_SPECIFIC: Mapping[str, Mapping[str, Any]] = {
    "smiles": {
        "smiles_column": "smiles",
        "targets": (),
        "split_column": "",
        "max_atoms": MAX_ATOMS,
    },
    "tu": {},
    "ogb": {"targets": (), "split_column": "", "max_atoms": MAX_ATOMS},
    "pyg": {"targets": (), "split_column": "", "domain": "auto", "max_atoms": MAX_ATOMS},
    "good": {
        "split_column": "covariate",
        "rule": "column",
        "environments": "given",
        "domain": "auto",
        "max_atoms": MAX_ATOMS,
    },
    "nodes": {
        "edges": "",
        "id_column": "id",
        "feature_columns": (),
        "feature_names": True,
        "targets": (),
        "split_column": "",
        "domain": "degree",
    },
}
"""Additional options of each kind of data, and defaults that differ from the common ones."""
COMMAND_OPTIONS = {
    "smiles": "--smiles FILE.csv",
    "tu": "--tu DIR|ZIP",
    "ogb": "--ogb DIR",
    "pyg": "--pyg FILE.pt",
    "good": "--good DIR",
    "nodes": "--nodes FILE.csv --edges FILE.csv",
}
_DOMAINS = {
    "smiles": ("size", "scaffold"),
    "ogb": ("size", "scaffold"),
    "pyg": ("auto", "size", "scaffold", "degree"),
    "good": ("auto", "size", "scaffold", "degree"),
    "nodes": ("degree",),
}
_LABELLED_BY_COLUMN = ("smiles", "nodes")
"""Kinds of data for which targets are required."""
_ENVIRONMENT_WORDS = {
    name: ("infer", "given") if name in ("pyg", "good") else ("infer",) for name in COMMAND_OPTIONS
}


def resolve_user_options(name: str, requested: Mapping[str, Any]) -> dict[str, Any]:
    """Merge options with the defaults; reject combinations that are not supported."""
    options = resolve_options(name, requested, {**_COMMON, **_SPECIFIC[name], "ratios": ()})
    if not options["file"] or options.get("edges", "file") == "":
        raise UsageError(f"no input file. Pass one: `gsx prepare {COMMAND_OPTIONS[name]}`.")
    options["name"] = options["name"] or _stem(Path(options["file"]))
    _check_names(options)
    if not 1 <= options.get("max_atoms", MAX_ATOMS) <= _MOST_ATOMS:
        raise UsageError(f"max_atoms must be in 1..{_MOST_ATOMS} (found {options['max_atoms']}).")
    _check_split_options(options)
    options["ratios"] = _ratios(options["rule"], tuple(options["ratios"]))
    if options["environments"] not in _ENVIRONMENT_WORDS[name]:
        check_environments(name, options["environments"], _ENVIRONMENT_WORDS[name])
    for list_option in ("targets", "feature_columns"):
        if list_option in options:
            options[list_option] = tuple(options[list_option])
    if name == "tu":
        if options["domain"] != "size" or options["rule"] == "column":
            raise UsageError(
                "TU files have no columns. Use `--domain size` and a rule other than `column`."
            )
        return options
    _check_columns(name, options)
    return options


def _check_split_options(options: Mapping[str, Any]) -> None:
    """Reject a negative minimum, and options that the split rule does not have."""
    if options["min_test_per_class"] < 0:
        raise UsageError(
            f"min_test_per_class must be at least 0 (found {options['min_test_per_class']})."
        )
    for option in ("divide_domains", "min_test_per_class"):
        if options[option] and options["rule"] != "domain-sorted":
            raise UsageError(
                f"{option} needs the rule `domain-sorted`; the rule is `{options['rule']}`. Leave "
                "one of them out."
            )


def _check_names(options: Mapping[str, Any]) -> None:
    """Reject names that cannot be names of a corpus, target or domain."""
    columns = (*options.get("targets", ()), *options.get("feature_columns", ()))
    for what, text in (
        ("the name", options["name"]),
        ("the domain", options["domain"]),
        ("the split column", options.get("split_column", "")),
        *(("the column", column) for column in columns),
    ):
        problem = name_problem(text)
        if problem is not None:
            raise UsageError(f"{what} {shown(text)} {problem}")


def split_rule(options: Mapping[str, Any]) -> SplitRule:
    """Return the split rule that the options select."""
    train, val, held_out = options["ratios"]
    count = options["environments"]
    return SplitRule(
        kind=options["rule"],
        descending=options["direction"] == "descending",
        train=train,
        val=val,
        held_out=held_out,
        environments=count if isinstance(count, int) else 1,
        divide=options["divide_domains"],
        min_per_class=options["min_test_per_class"],
    )


def corpus_description(options: Mapping[str, Any], domain: str) -> str:
    """Return the description of a corpus; ``domain`` replaces the domain ``auto``."""
    by = domain if options["domain"] == "auto" else options["domain"]
    return f"Graphs of a user, split by {by} ({options['rule']}, {options['direction']})."


def _ratios(rule: str, ratios: tuple[float, ...]) -> tuple[float, ...]:
    train, val, held_out = ratios or _RATIOS[rule]
    if not (0 < train <= 1 and 0 <= val <= 1 and train + val <= 1 + 1e-9):
        raise UsageError(
            f"ratios: {train:g} for training and {val:g} for ood_val; expected fractions with a "
            f"sum of at most 1. {_ratio_hint((train, val, held_out))}ood_test gets the rest."
        )
    if not 0 <= held_out < train / 2:
        raise UsageError(
            f"ratios: {held_out:g} for each of id_val and id_test; expected less than half of the "
            f"training share, {train:g}, from which they are taken."
        )
    return train, val, held_out


def _ratio_hint(ratios: tuple[float, ...]) -> str:
    """Return a suggestion for ratios that look like percentages."""
    if not (1 < max(ratios) <= 100 and min(ratios) >= 0):
        return ""
    return f"Did you mean {'/'.join(f'{ratio / 100:g}' for ratio in ratios)}? "


def _check_columns(name: str, options: Mapping[str, Any]) -> None:
    targets = options.get("targets", ())
    if not targets and name in _LABELLED_BY_COLUMN:
        raise UsageError("no target. Select the column to predict: `--target COLUMN`.")
    ids = (options.get("smiles_column"), options.get("id_column"))
    columns = (*targets, *options.get("feature_columns", ()))
    repeated = [column for column in columns if columns.count(column) > 1 or column in ids]
    if repeated:
        raise UsageError(f"the column `{repeated[0]}` is used twice. Use it for one purpose only.")
    domain, domains = options["domain"], _DOMAINS[name]
    if domain not in domains and not domain.startswith("column:"):
        choices = ", ".join(f"`{choice}`" for choice in domains)
        raise UsageError(
            f"no domain `{domain}`. Choose {choices}, or `column:NAME` for a column of the "
            f"{'table' if name in _LABELLED_BY_COLUMN else 'data'}."
        )
    split_column = options["split_column"]
    column_missing = not split_column and name in _LABELLED_BY_COLUMN
    if (options["rule"] == "column" and column_missing) or (
        options["rule"] != "column" and split_column and name != "good"
    ):
        raise UsageError(
            "the rule `column` and `--split-column NAME` require each other. Pass both or neither."
        )


def _stem(path: Path) -> str:
    return safe_file_name(path.name.split(".")[0]) or "own"


def safe_file_name(name: str) -> str:
    """Replace characters that some stores do not allow in names with ``_``."""
    return re.sub(r"[^A-Za-z0-9._+-]", "_", name)
