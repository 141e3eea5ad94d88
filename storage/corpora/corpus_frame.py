"""Columns of a corpus as strings, and as a pandas data frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gsx.errors import UsageError
from gsx.frames import data_frame
from gsx.ragged import Array, Ragged, decode_texts
from gsx.schema import SPLITS, Axis, Column, CorpusInfo
from gsx.storage.corpora.corpus_base import Envs, Origins, Splits
from gsx.table import GraphTable, Values

if TYPE_CHECKING:
    import pandas

    from gsx.storage.corpora.corpus import Corpus

LABELS = ("y", "node_y")
"""Columns with one value per class or task, which get the names of the outputs."""
_FEATURES = ("node_feat", "node_feat_index", "node_feat_value", "edge_attr", "edge_src", "edge_dst")


def strings(corpus: Corpus, name: str, *, split: Splits, env: Envs, origin: Origins) -> list[str]:
    """Return a graph column of text, or of categories, as one string per graph."""
    corpus.check_columns([name])
    column = corpus.info.column(name)
    if column.axis != "graph" or not (column.dtype == "text" or column.vocabulary):
        texts = [
            each.name
            for each in corpus.info.columns
            if each.axis == "graph" and (each.dtype == "text" or each.vocabulary)
        ]
        raise UsageError(
            f"column `{name}` has no strings. Columns with strings: {', '.join(texts)}."
        )
    table = corpus.table(split=split, env=env, origin=origin, columns=[name])
    return _as_strings(column, table.graph[name])


def to_pandas(
    corpus: Corpus,
    *,
    split: Splits,
    env: Envs,
    origin: Origins,
    columns: Sequence[str] | None,
) -> pandas.DataFrame:
    """Return one row per graph, or per node of a corpus with labelled nodes."""
    info = corpus.info
    axis: Axis = "node" if info.level == "node" else "graph"
    corpus.check_columns(columns or ())
    chosen = [column for column in info.columns if _is_wanted(column, axis, columns)]
    if axis == "node":
        return _node_frame(corpus, chosen, split=split, env=env, origin=origin)
    names = [column.name for column in chosen]
    table = corpus.table(split=split, env=env, origin=origin, columns=names)
    frame: dict[str, Any] = {}
    for column in chosen:
        frame.update(_frame_columns(column, table.graph[column.name], info))
    if columns is None:
        frame |= {"num_nodes": table.num_nodes, "num_edges": table.num_edges}
    return data_frame(frame)


def _node_frame(
    corpus: Corpus, chosen: Sequence[Column], *, split: Splits, env: Envs, origin: Origins
) -> pandas.DataFrame:
    """Return one row per node; splits and environments are those of nodes."""
    if split is not None:
        names = [split] if isinstance(split, str) else list(split)
        for name in names:
            if name not in corpus.nodes:
                known = ", ".join(corpus.nodes)
                raise UsageError(f"no nodes in the split `{name}`; the corpus has: {known}.")
    envs = corpus.check_envs(env)
    needed = ["graph_id", "origin", "node_split", "node_env_id"]
    table = corpus.table(origin=origin, columns=[*needed, *(column.name for column in chosen)])
    keep = np.ones(table.total_nodes, dtype=bool)
    if split is not None:
        codes = [SPLITS.index(name) for name in names]
        keep &= np.isin(table.dense("node", "node_split"), codes)
    if envs is not None:
        keep &= np.isin(table.dense("node", "node_env_id"), envs)
    rows = np.flatnonzero(keep)
    owner = np.repeat(np.arange(len(table)), table.num_nodes)[rows]
    origins = _as_strings(corpus.info.column("origin"), table.graph["origin"])
    frame: dict[str, Any] = {
        "graph_id": table.dense("graph", "graph_id")[owner],
        "node": rows - table.node_ptr[owner],
        "origin": [origins[graph] for graph in owner.tolist()],
    }
    for column in chosen:
        values = _rows_of(table, column.name, rows)
        for name, data in _frame_columns(column, values, corpus.info):
            frame[name.removeprefix("node_")] = data
    return data_frame(frame)


def _rows_of(table: GraphTable, name: str, rows: Array) -> Values:
    values = table.node[name]
    if isinstance(values, Ragged):
        raise UsageError(f"column `{name}` holds lists. Use `corpus.table(columns=[...])`.")
    return values[rows]


def _is_wanted(column: Column, axis: Axis, names: Sequence[str] | None) -> bool:
    """Return whether a column is part of the frame; reject one of another axis."""
    if names is None:
        if column.name in _FEATURES or column.name.startswith("provenance."):
            return False
        return column.axis == axis and (column.dtype == "text" or not column.ragged)
    if column.name in names and column.axis != axis:
        raise UsageError(
            f"column `{column.name}` has one row per {column.axis}, but the frame has one per "
            f"{axis}. Use `corpus.table(columns=[...])`."
        )
    return column.name in names


def _frame_columns(column: Column, values: Values, info: CorpusInfo) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the columns of the frame that a column of the corpus becomes."""
    if column.dtype == "text" or column.vocabulary:
        yield column.name, _as_strings(column, values)
    elif isinstance(values, Ragged):
        ends = zip(values.ptr[:-1].tolist(), values.ptr[1:].tolist(), strict=True)
        yield column.name, [values.values[start:stop] for start, stop in ends]
    elif values.ndim == 1:
        yield column.name, values
    else:
        names = info.outputs if column.name in LABELS else column.value_names
        width = values.shape[1]
        labels = names if len(names) == width else tuple(map(str, range(width)))
        for number, label in enumerate(labels):
            yield f"{column.name}_{label}", values[:, number]


def _as_strings(column: Column, values: Values) -> list[str]:
    if isinstance(values, Ragged):
        return decode_texts(values)
    words = column.vocabulary
    return [words[code] for code in values.tolist()]
