"""Options for a user's own data: what is left open, and what cannot be meant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gsx.errors import UsageError
from gsx.stages.datasets.family import check_environments, resolve_options

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
_SMILES: Mapping[str, Any] = {"smiles_column": "smiles", "targets": (), "split_column": ""}
FLAG = {"smiles": "--smiles FILE.csv", "tu": "--tu DIR|ZIP"}


def options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve how the files are to be read and split, or refuse what cannot be meant."""
    known = {**_COMMON, **(_SMILES if name == "smiles" else {}), "ratios": ()}
    found = resolve_options(name, given, known)
    if not found["file"]:
        raise UsageError(f"no file to read. Name it: `gsx prepare {FLAG[name]}`.")
    found["name"] = found["name"] or _stem(Path(found["file"]))
    found["ratios"] = _ratios(found["rule"], tuple(found["ratios"]))
    if found["environments"] != "infer":
        check_environments(name, found["environments"])
    if name == "smiles":
        found["targets"] = tuple(found["targets"])
        _check_columns(found)
    elif found["domain"] != "size" or found["rule"] == "column":
        raise UsageError("TU files have no columns: the domain is `size`, and no column splits.")
    return found


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


def _check_columns(found: Mapping[str, Any]) -> None:
    targets = found["targets"]
    if not targets:
        raise UsageError("no target to learn. Name the column: `--target COLUMN`.")
    again = [each for each in targets if targets.count(each) > 1 or each == found["smiles_column"]]
    if again:
        raise UsageError(f"the column `{again[0]}` cannot be used twice; name it once.")
    domain = found["domain"]
    if domain not in ("size", "scaffold") and not domain.startswith("column:"):
        raise UsageError(
            f"no domain `{domain}`. Say `size`, `scaffold` or `column:NAME` for a column of the "
            "table."
        )
    if (found["rule"] == "column") != bool(found["split_column"]):
        raise UsageError(
            "the rule `column` and `--split-column NAME`, the column that names the splits, go "
            "together; one was given without the other."
        )


def _stem(path: Path) -> str:
    return plain_name(path.name.split(".")[0]) or "own"


def plain_name(name: str) -> str:
    """Return a file's name with letters that any store takes."""
    return re.sub(r"[^A-Za-z0-9._+-]", "_", name)
