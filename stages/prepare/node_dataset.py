"""What datasets that label nodes share: one graph, features of nodes, and where nodes go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.provenance import source_provenance
from gsx.ragged import Array, Ints, Ragged, pointers, rows_of
from gsx.schema import ORIGINS, SPLITS, CorpusInfo, corpus_columns
from gsx.stages.prepare.dataset import Source
from gsx.stages.prepare.split_methods import UNUSED
from gsx.stages.prepare.splitting import Placed, environments
from gsx.stages.prepare.targets import Labels
from gsx.storage.artifacts.manifest import Dropped
from gsx.table import GraphTable, Values

"""Modules whose code decides the graphs of every such dataset."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeGraph:
    """One graph whose nodes are labelled."""

    features: Array | Ragged
    """``[N, F]`` numbers, or of every node the features it has, in rising order."""
    num_features: int
    src: Ints
    dst: Ints
    """Edges as they were read, each in one direction or in both, once or often."""
    labels: Labels
    placed: Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a corpus says of itself."""

    name: str
    domain: str
    description: str
    licence: str
    citation: str


def one_graph(name: str, num_graphs: int | None) -> None:
    """Refuse a number of graphs."""
    if num_graphs is not None:
        raise UsageError(f"{name} is one graph whose nodes are labelled; leave out num_graphs.")


def node_source(
    graph: NodeGraph,
    about: About,
    *,
    dropped: tuple[Dropped, ...] = (),
    warnings: tuple[str, ...] = (),
) -> Source:
    """Return a dataset of one graph in the split ``all``."""
    table = node_table(graph)
    info = CorpusInfo(
        name=about.name,
        level="node",
        task=graph.labels.task,
        metric=graph.labels.metric,
        outputs=graph.labels.outputs,
        domain=about.domain,
        domains=graph.placed.domains.texts(),
        environments=environments(graph.placed),
        columns=corpus_columns(
            outputs=len(graph.labels.outputs),
            num_features=graph.num_features,
            level="node",
            sparse=isinstance(graph.features, Ragged),
        ),
        num_features=graph.num_features,
        description=about.description,
        licence=about.licence,
        citation=about.citation,
    )
    return Source(
        info=info,
        split_sizes={"all": 1},
        build=lambda _, start, stop: table.slice(start, stop),
        dropped=dropped,
        warnings=warnings,
    )


def node_table(graph: NodeGraph) -> GraphTable:
    """Return the graph with every edge in both directions, once, sorted by its ends."""
    nodes = len(graph.placed.split)
    src, dst = both_ways(graph.src, graph.dst, nodes)
    split = np.where(graph.placed.split == UNUSED, SPLITS.index("all"), graph.placed.split)
    return GraphTable(
        node_ptr=pointers([nodes]),
        edge_ptr=pointers([len(src)]),
        graph={
            "graph_id": np.zeros(1, dtype=np.int64),
            "split": np.array([SPLITS.index("all")], dtype=np.int8),
            "env_id": np.array([-1], dtype=np.int32),
            "domain_id": np.array([-1], dtype=np.int32),
            "origin": np.array([ORIGINS.index("source")], dtype=np.int8),
            **source_provenance(1),
        },
        node={
            **_features(graph.features),
            "node_y": graph.labels.y.astype(np.float32),
            "node_label": graph.labels.label.astype(np.int32),
            "node_env_id": graph.placed.env_id.astype(np.int32),
            "node_domain_id": graph.placed.domains.number.astype(np.int32),
            "node_split": split.astype(np.int8),
        },
        edge={"edge_src": src.astype(np.int32), "edge_dst": dst.astype(np.int32)},
    )


def _features(features: Array | Ragged) -> dict[str, Values]:
    if not isinstance(features, Ragged):
        return {"node_feat": features.astype(np.float32)}
    ones = np.ones(len(features.values), dtype=np.float32)
    return {
        "node_feat_index": Ragged(features.ptr, features.values.astype(np.int32)),
        "node_feat_value": Ragged(features.ptr, ones),
    }


def both_ways(src: Ints, dst: Ints, nodes: int) -> tuple[Ints, Ints]:
    """Return edges in both directions, each once, sorted by source and target."""
    code = np.unique(np.concatenate([src * nodes + dst, dst * nodes + src]))
    return code // nodes, code % nodes


def bags(row: Ints, column: Ints, rows: int) -> Ragged:
    """Return of every row the columns it has, in rising order, each once."""
    width = int(column.max(initial=0)) + 1
    code = np.unique(row * width + column)
    return Ragged(pointers(np.bincount(code // width, minlength=rows)), code % width)


def same_bags(features: Ragged, first: Ints, second: Ints) -> int:
    """Count the places at which two lists of nodes, one beside the other, have equal features."""
    left, right = features.take(first), features.take(second)
    equal = np.diff(left.ptr) == np.diff(right.ptr)
    one, other = left.take(np.flatnonzero(equal)), right.take(np.flatnonzero(equal))
    wrong = np.unique(rows_of(one.ptr)[one.values != other.values])
    return int(equal.sum()) - len(wrong)


def check_ends(src: Ints, dst: Ints, nodes: int, where: str) -> None:
    """Refuse edges to nodes that are not there."""
    bad = np.flatnonzero((src < 0) | (src >= nodes) | (dst < 0) | (dst >= nodes))
    if len(bad):
        row = int(bad[0])
        raise StageError(
            f"{where}, row {row}: an edge from {src[row]} to {dst[row]}, but nodes are numbered "
            f"0..{nodes - 1}. The files of one graph must belong together."
        )
