"""Provenance columns of graph tables."""

from __future__ import annotations

import numpy as np

from gsx.ragged import Ragged
from gsx.schema import PROVENANCE
from gsx.table import Values


def source_provenance(num_graphs: int) -> dict[str, Values]:
    """Return the provenance columns of source graphs: empty lists and missing values."""
    missing = {"provenance.lambda": np.nan, "provenance.partner": -1}
    return {
        column.name: Ragged(
            np.zeros(num_graphs + 1, dtype=np.int64),
            np.zeros(0, dtype="uint8" if column.dtype == "text" else column.dtype),
        )
        if column.ragged
        else np.full(num_graphs, missing[column.name], dtype=column.dtype)
        for column in PROVENANCE
    }
