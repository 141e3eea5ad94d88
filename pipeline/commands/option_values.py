"""Values of options that the command line and the Python API share. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORMATS = {"parquet": ("parquet",), "zarr": ("zarr",), "both": ("parquet", "zarr")}
"""Value of the option `format` → file formats of the shards."""
PRESETS = ("quick", "default", "paper")
"""Names of the training presets; ``gsx.stages.train.presets`` has their values."""
RULES = {
    "ood_val": "best epoch by ood_val",
    "id_val": "best epoch by id_val",
    "augmented": "best epoch by augmented graphs",
    "last": "last epoch",
}
"""Rules that select an epoch of a training run, with their descriptions."""
TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
"""Suffixes of tables of molecules."""
RECOMMEND_BUDGET = "10m"
"""Default time of the confirmation in `gsx recommend`."""
GENERATE_BUDGET = "3m"
"""Default time to compare recipes in `gsx generate`."""

Options = Mapping[str, Any]
"""Options of a command; None, False or an empty tuple if not given."""


def is_given(value: object) -> bool:
    """Return whether the user has set an option."""
    return not (value is None or value is False or value == ())
