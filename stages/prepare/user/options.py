"""Options for a user's own data: what is left open, and what cannot be meant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gsx.errors import UsageError
from gsx.stages.prepare.dataset import check_environments, resolve_options
from gsx.stages.prepare.splitting import SplitRule

ENVIRONMENTS = 5
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
}
_MORE: Mapping[str, Mapping[str, Any]] = {
    "smiles": {"smiles_column": "smiles", "targets": (), "split_column": ""},
    "tu": {},
    "ogb": {"targets": (), "split_column": ""},
    "pyg": {"targets": (), "split_column": "", "domain": "auto"},
    "good": {
        "split_column": "covariate",
        "rule": "column",
        "environments": "given",
        "domain": "auto",
    },
    "nodes": {
        "edges": "",
        "id_column": "id",
        "feature_columns": (),
        "targets": (),
        "split_column": "",
        "domain": "degree",
    },
}
"""Options of each source beside the common ones, and other defaults."""
FLAG = {
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
"""Sources whose targets must be named."""
_ENVIRONMENT_WORDS = {
    name: ("infer", "given") if name in ("pyg", "good") else ("infer",) for name in FLAG
}


def options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve how the files are to be read and split, or refuse what cannot be meant."""
    found = resolve_options(name, given, {**_COMMON, **_MORE[name], "ratios": ()})
    if not found["file"] or found.get("edges", "file") == "":
        raise UsageError(f"no file to read. Name it: `gsx prepare {FLAG[name]}`.")
    found["name"] = found["name"] or _stem(Path(found["file"]))
    found["ratios"] = _ratios(found["rule"], tuple(found["ratios"]))
    if found["environments"] not in _ENVIRONMENT_WORDS[name]:
        check_environments(name, found["environments"], _ENVIRONMENT_WORDS[name])
    for several in ("targets", "feature_columns"):
        if several in found:
            found[several] = tuple(found[several])
    if name == "tu":
        if found["domain"] != "size" or found["rule"] == "column":
            raise UsageError(
                "TU files have no columns: the domain is `size`, and no column splits."
            )
        return found
    _check_columns(name, found)
    return found


def split_rule(chosen: Mapping[str, Any]) -> SplitRule:
    """Return the rule that options stand for."""
    train, val, held_out = chosen["ratios"]
    count = chosen["environments"]
    return SplitRule(
        kind=chosen["rule"],
        descending=chosen["direction"] == "descending",
        train=train,
        val=val,
        held_out=held_out,
        environments=count if isinstance(count, int) else 1,
    )


def describe(chosen: Mapping[str, Any], domain: str) -> str:
    """Say how a corpus was split; ``domain`` is what it is sorted by where nothing was asked."""
    by = domain if chosen["domain"] == "auto" else chosen["domain"]
    return f"A user's own graphs, split by {by} ({chosen['rule']}, {chosen['direction']})."


def _ratios(rule: str, given: tuple[float, ...]) -> tuple[float, ...]:
    train, val, held_out = given or _RATIOS[rule]
    if not (0 < train <= 1 and 0 <= val <= 1 and train + val <= 1 + 1e-9):
        raise UsageError(
            f"ratios: {train:g} to train on and {val:g} for ood_val; expected shares of all "
            "graphs that leave something for ood_test."
        )
    if not 0 <= held_out < train / 2:
        raise UsageError(
            f"ratios: {held_out:g} each for id_val and id_test; they come out of the {train:g} to "
            "train on, so expected less than half of that."
        )
    return train, val, held_out


def _check_columns(name: str, found: Mapping[str, Any]) -> None:
    targets = found.get("targets", ())
    if not targets and name in _LABELLED_BY_COLUMN:
        raise UsageError("no target to learn. Name the column: `--target COLUMN`.")
    ids = (found.get("smiles_column"), found.get("id_column"))
    named = (*targets, *found.get("feature_columns", ()))
    again = [each for each in named if named.count(each) > 1 or each in ids]
    if again:
        raise UsageError(f"the column `{again[0]}` cannot be used twice; name it once.")
    domain, known = found["domain"], _DOMAINS[name]
    if domain not in known and not domain.startswith("column:"):
        words = ", ".join(f"`{each}`" for each in known)
        raise UsageError(
            f"no domain `{domain}`. Say {words} or `column:NAME` for a column of the "
            f"{'table' if name in _LABELLED_BY_COLUMN else 'data'}."
        )
    column = found["split_column"]
    lacking = not column and name in _LABELLED_BY_COLUMN
    if (found["rule"] == "column" and lacking) or (
        found["rule"] != "column" and column and name != "good"
    ):
        raise UsageError(
            "the rule `column` and `--split-column NAME`, the column that names the splits, go "
            "together; one was given without the other."
        )


def _stem(path: Path) -> str:
    return plain_name(path.name.split(".")[0]) or "own"


def plain_name(name: str) -> str:
    """Return a file's name with letters that any store takes."""
    return re.sub(r"[^A-Za-z0-9._+-]", "_", name)
