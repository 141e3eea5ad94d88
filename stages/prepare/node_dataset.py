"""Node-level datasets: one graph with labelled nodes, and helpers for reading it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.provenance import source_provenance
from gsx.ragged import Array, Ints, Ragged, pointers, row_indices
from gsx.schema import ORIGINS, SPLITS, CorpusInfo, corpus_columns
from gsx.stages.prepare.dataset import PreparedDataset
from gsx.stages.prepare.split_methods import UNUSED
from gsx.stages.prepare.splitting import SplitAssignment, environment_table
from gsx.stages.prepare.targets import Labels
from gsx.storage.artifacts.manifest import Dropped
from gsx.table import GraphTable, Values


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeGraph:
    """One graph with labelled nodes."""

    features: Array | Ragged
    """``[N, F]`` numbers, or the sorted indices of the non-zero features of every node."""
    num_features: int
    names: tuple[str, ...] = ()
    """Names of dense features; empty if they have none."""
    src: Ints
    dst: Ints
    """Edges as read: in one or both directions, possibly repeated."""
    labels: Labels
    assignment: SplitAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCorpusDescription:
    """Name, domain, description, licence and citation of a corpus."""

    name: str
    domain: str
    description: str
    licence: str
    citation: str


def reject_num_graphs_of_nodes(name: str, num_graphs: int | None) -> None:
    """Reject a number of graphs."""
    if num_graphs is not None:
        raise UsageError(f"{name} is one graph with labelled nodes. Remove num_graphs.")


def node_dataset(
    graph: NodeGraph,
    description: NodeCorpusDescription,
    *,
    dropped: tuple[Dropped, ...] = (),
    warnings: tuple[str, ...] = (),
) -> PreparedDataset:
    """Return a dataset of one graph in the split ``all``."""
    table = node_table(graph)
    info = CorpusInfo(
        name=description.name,
        level="node",
        task=graph.labels.task,
        metric=graph.labels.metric,
        outputs=graph.labels.outputs,
        domain=description.domain,
        domains=graph.assignment.domains.texts(),
        environments=environment_table(graph.assignment),
        columns=corpus_columns(
            outputs=len(graph.labels.outputs),
            num_features=graph.num_features,
            level="node",
            feature_names=() if isinstance(graph.features, Ragged) else graph.names,
            sparse=isinstance(graph.features, Ragged),
        ),
        num_features=graph.num_features,
        description=description.description,
        licence=description.licence,
        citation=description.citation,
    )
    return PreparedDataset(
        info=info,
        split_sizes={"all": 1},
        build=lambda _, start, stop: table.slice(start, stop),
        dropped=dropped,
        warnings=warnings,
    )


def node_table(graph: NodeGraph) -> GraphTable:
    """Return the graph with each edge in both directions once, sorted by source and target."""
    nodes = len(graph.assignment.split)
    src, dst = symmetric_edges(graph.src, graph.dst, nodes)
    split = np.where(graph.assignment.split == UNUSED, SPLITS.index("all"), graph.assignment.split)
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
            "node_env_id": graph.assignment.env_id.astype(np.int32),
            "node_domain_id": graph.assignment.domains.number.astype(np.int32),
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


def symmetric_edges(src: Ints, dst: Ints, nodes: int) -> tuple[Ints, Ints]:
    """Return each edge in both directions once, sorted by source and target."""
    code = np.unique(np.concatenate([src * nodes + dst, dst * nodes + src]))
    return code // nodes, code % nodes


def bags_of_words(row: Ints, column: Ints, rows: int) -> Ragged:
    """Return the sorted distinct columns of every row."""
    width = int(column.max(initial=0)) + 1
    code = np.unique(row * width + column)
    return Ragged(pointers(np.bincount(code // width, minlength=rows)), code % width)


def count_equal_bags(features: Ragged, first: Ints, second: Ints) -> int:
    """Count positions at which two lists of nodes have equal features."""
    left, right = features.take(first), features.take(second)
    equal = np.diff(left.ptr) == np.diff(right.ptr)
    one, other = left.take(np.flatnonzero(equal)), right.take(np.flatnonzero(equal))
    wrong = np.unique(row_indices(one.ptr)[one.values != other.values])
    return int(equal.sum()) - len(wrong)


def check_edge_endpoints(src: Ints, dst: Ints, nodes: int, where: str) -> None:
    """Reject edges to nodes that do not exist."""
    invalid = np.flatnonzero((src < 0) | (src >= nodes) | (dst < 0) | (dst >= nodes))
    if len(invalid):
        row = int(invalid[0])
        raise StageError(
            f"{where}, row {row}: edge from {src[row]} to {dst[row]}, but node ids are "
            f"0..{nodes - 1}. Use node and edge files of the same graph."
        )
