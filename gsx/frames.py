"""pandas data frames; pandas is imported when a user asks for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gsx.errors import UsageError

if TYPE_CHECKING:
    import pandas


def data_frame(columns: Mapping[str, Any]) -> pandas.DataFrame:
    """Return a data frame of columns of equal length; raise UsageError without pandas."""
    try:
        import pandas
    except ImportError as error:
        raise UsageError(
            "to_pandas needs pandas, which is not installed. Run `pip install pandas`."
        ) from error
    return pandas.DataFrame(dict(columns))


def frame_of_rows(rows: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """Return a data frame of rows; values that a row lacks are missing."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return data_frame({name: [row.get(name) for row in rows] for name in names})
