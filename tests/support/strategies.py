"""Graph tables for tests: a literal example and a Hypothesis strategy for valid tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from gsx.provenance import source_provenance
from gsx.ragged import Ragged, encode_texts, pointers
from gsx.schema import ORIGINS, SPLITS, Column, CorpusInfo, Environment, corpus_columns
from gsx.table import GraphTable

FLOATS = np.array([0.0, -0.0, 0.1, 1.5, -2.25, 1e-45, 3.4e38, -7.0], dtype=np.float32)
"""Finite floats at the limits: signed zero, the smallest and nearly the largest."""
TEXTS = ("", "C", "c1ccccc1", "Größe", "分子", "🧪\x00", "e\u0301", "a" * 40)
SMILES = Column(name="smiles", axis="graph", dtype="text", ragged=True, doc="molecule")
TRUTH = Column(name="node_truth", axis="node", dtype="int8", doc="1 = node of the motif")
TOKENS = Column(name="tokens", axis="graph", dtype="int16", ragged=True, doc="words by number")
WEIGHT = Column(name="weight", axis="graph", dtype="float64", doc="a number per graph")
EXTRAS = (SMILES, TRUTH, TOKENS, WEIGHT)


def tiny_info() -> CorpusInfo:
    """Return the schema of ``tiny_table``."""
    return CorpusInfo(
        name="tiny",
        outputs=("yes", "no"),
        domain="size",
        environments=(Environment(id=0, name="small"), Environment(id=1, name="large")),
        columns=corpus_columns(outputs=2, num_features=2, edge_features=1, extras=(SMILES,)),
        num_features=2,
    )


def tiny_table() -> GraphTable:
    """Return a path of three nodes, one node with a self-loop, and a graph without nodes."""
    return GraphTable(
        node_ptr=np.array([0, 3, 4, 4]),
        edge_ptr=np.array([0, 4, 5, 5]),
        graph={
            "graph_id": np.array([10, 11, 12]),
            "split": np.array([0, 0, 4], dtype=np.int8),
            "env_id": np.array([0, 1, -1], dtype=np.int32),
            "domain_id": np.array([0, 1, 2], dtype=np.int32),
            "origin": np.array([0, 4, 0], dtype=np.int8),
            "y": np.array([[1, 0], [0.25, 0.75], [np.nan, np.nan]], dtype=np.float32),
            "label": np.array([0, -1, -1], dtype=np.int32),
            **source_provenance(3),
            "smiles": encode_texts(["CCO", "é", ""]),
        },
        node={
            "node_feat": np.array([[1, 2], [3, 4], [5, 6], [7, 8]], dtype=np.float32),
        },
        edge={
            "edge_src": np.array([0, 1, 1, 2, 0], dtype=np.int32),
            "edge_dst": np.array([1, 0, 2, 1, 0], dtype=np.int32),
            "edge_attr": np.array([[0.5], [0.5], [0.25], [0.25], [9]], dtype=np.float32),
        },
    )


@dataclass
class _Values:
    """Draws arrays from a seed, so that examples are cheap and shrink by structure only."""

    random: np.random.Generator

    def pick(self, pool, *shape):
        pool = np.asarray(pool)
        return pool[self.random.integers(0, len(pool), shape)]

    def ints(self, dtype, low, high, *shape):
        return self.random.integers(low, high + 1, shape).astype(dtype)

    def lists(self, dtype, low, high, rows, longest=3):
        counts = self.random.integers(0, longest + 1, rows)
        return Ragged(pointers(counts), self.ints(dtype, low, high, counts.sum()))

    def texts(self, rows):
        return encode_texts([TEXTS[i] for i in self.random.integers(0, len(TEXTS), rows)])

    def increasing(self, rows, limit):
        """Return rows of strictly increasing numbers below ``limit``."""
        present = self.random.random((rows, limit)) < 0.4
        return Ragged(pointers(present.sum(axis=1)), np.nonzero(present)[1].astype(np.int32))


@st.composite
def tables(
    draw,
    *,
    min_graphs: int = 0,
    max_graphs: int = 6,
    level: str | None = None,
    sparse: bool | None = None,
) -> tuple[GraphTable, CorpusInfo]:
    """Draw a valid table and the schema of its corpus."""
    level = level or draw(st.sampled_from(("graph", "graph", "node")))
    sparse = draw(st.booleans()) if sparse is None else sparse
    task = draw(st.sampled_from(("classification", "classification", "multitask", "regression")))
    outputs, width = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    feature_dtype = draw(st.sampled_from(("float32", "int8")))
    edge_width = draw(st.integers(0, 2))
    edge_dtype = draw(st.sampled_from(("float32", "int8")))
    extras = draw(st.sampled_from(((), (SMILES,), EXTRAS)))
    sizes = draw(st.lists(st.integers(0, 4), min_size=min_graphs, max_size=max_graphs))
    edges = [draw(st.integers(0, 6)) if size else 0 for size in sizes]
    values = _Values(np.random.default_rng(draw(st.integers(0, 2**16))))
    info = CorpusInfo(
        name="any",
        level=level,
        task=task,
        outputs=tuple(f"output {i}" for i in range(outputs)),
        domain="size",
        environments=(Environment(id=0, name="a"), Environment(id=1, name="b")),
        columns=corpus_columns(
            outputs=outputs,
            num_features=width,
            level=level,
            feature_dtype=feature_dtype,
            sparse=sparse,
            edge_features=edge_width,
            edge_feature_dtype=edge_dtype,
            extras=extras,
        ),
        num_features=width,
        description="Graphs that were drawn: 🧪",
    )
    graphs, nodes, total = len(sizes), sum(sizes), sum(edges)
    graph = {
        "graph_id": values.random.permutation(graphs) + 100,
        "split": values.ints("int8", 0, 4, graphs)
        if level == "graph"
        else np.full(graphs, SPLITS.index("all"), dtype=np.int8),
        "env_id": values.ints("int32", -1, 1, graphs),
        "domain_id": values.ints("int32", -1, 9, graphs),
        "origin": values.ints("int8", 0, len(ORIGINS) - 1, graphs),
        **_provenance(values, graphs),
    }
    node = _features(values, nodes, width, feature_dtype) if not sparse else {}
    if sparse:
        index = values.increasing(nodes, width)
        value = _numbers(values, feature_dtype, len(index.values))
        node = {"node_feat_index": index, "node_feat_value": Ragged(index.ptr, value)}
    limit = np.repeat(sizes, edges).astype(np.int64)
    edge = {
        "edge_src": (values.random.random(total) * limit).astype(np.int32),
        "edge_dst": (values.random.random(total) * limit).astype(np.int32),
    }
    if edge_width:
        edge["edge_attr"] = _numbers(values, edge_dtype, total, edge_width)
    if level == "graph":
        graph |= _labels(values, task, graphs, outputs, prefix="")
    else:
        node |= _labels(values, task, nodes, outputs, prefix="node_")
        node["node_env_id"] = values.ints("int32", -1, 1, nodes)
        node["node_domain_id"] = values.ints("int32", -1, 9, nodes)
        node["node_split"] = values.ints("int8", 0, len(SPLITS) - 1, nodes)
    if extras:
        graph["smiles"] = values.texts(graphs)
    if extras == EXTRAS:
        node["node_truth"] = values.ints("int8", 0, 1, nodes)
        graph["tokens"] = values.lists("int16", -5, 300, graphs)
        graph["weight"] = values.pick([0.1, np.nan, np.inf, -0.0, 1e300], graphs)
    return GraphTable(pointers(sizes), pointers(edges), graph, node, edge), info


def _numbers(values, dtype, *shape):
    if dtype == "float32":
        return values.pick(FLOATS, *shape)
    return values.ints(dtype, -128, 127, *shape)


def _features(values, nodes, width, dtype):
    return {"node_feat": _numbers(values, dtype, nodes, width)}


def _labels(values, task, rows, outputs, *, prefix):
    """Return a mixture of hard, soft and missing labels."""
    y = np.full((rows, outputs), np.nan, dtype=np.float32)
    label = np.full(rows, -1, dtype=np.int32)
    if task == "regression":
        y = values.pick([np.nan, -3.5, 0.0, 1e20], rows, outputs).astype(np.float32)
    elif task == "multitask":
        y = values.pick([np.nan, 0.0, 0.25, 1.0], rows, outputs).astype(np.float32)
    else:
        kind = values.random.integers(0, 3, rows)
        hard = np.flatnonzero(kind == 0)
        label[hard] = values.random.integers(0, outputs, len(hard))
        y[hard] = np.eye(outputs, dtype=np.float32)[label[hard]]
        y[kind == 1] = 1 / outputs
    return {f"{prefix}y": y, f"{prefix}label": label}


def _provenance(values, graphs):
    return {
        "provenance.parents": values.lists("int64", 0, 2**40, graphs),
        "provenance.node_slot": values.lists("int16", 0, 3, graphs),
        "provenance.node_number": values.lists("int32", 0, 50, graphs),
        "provenance.bridges": values.lists("int32", 0, 50, graphs),
        "provenance.lambda": values.pick([np.nan, 0.5, 2.0], graphs).astype(np.float32),
        "provenance.partner": values.ints("int64", -1, 3, graphs),
        "provenance.stream": values.texts(graphs),
    }
