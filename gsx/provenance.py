"""Where graphs came from, as columns."""

from __future__ import annotations

import numpy as np

from gsx.ragged import Ragged
from gsx.schema import PROVENANCE
from gsx.table import Values


def source_provenance(num_graphs: int) -> dict[str, Values]:
    """Return the provenance columns of graphs that were not made from others."""
    plain = {"provenance.lambda": np.nan, "provenance.partner": -1}
    return {
        column.name: Ragged(
            np.zeros(num_graphs + 1, dtype=np.int64),
            np.zeros(0, dtype="uint8" if column.dtype == "text" else column.dtype),
        )
        if column.ragged
        else np.full(num_graphs, plain[column.name], dtype=column.dtype)
        for column in PROVENANCE
    }
