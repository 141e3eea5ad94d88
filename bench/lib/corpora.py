"""Synthetic corpora that benchmarks read and write: trees of 20 to 32 nodes, random features."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gsx.provenance import source_provenance
from gsx.ragged import Ints, pointers
from gsx.schema import ORIGINS, SPLITS, CorpusInfo, Environment, corpus_columns
from gsx.seeds import rng
from gsx.storage.artifacts.publish import Identity, build_artifact
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import Format, Shard, plan_shards, write_corpus
from gsx.table import GraphTable

SEED = 0
FEATURES, EDGE_FEATURES, CLASSES, ENVIRONMENTS = 16, 4, 3, 4
MIN_NODES, MAX_NODES = 20, 32
SHARD_GRAPHS = 25_000

INFO = CorpusInfo(
    name="bench",
    outputs=tuple("abc"),
    domain="none",
    environments=tuple(Environment(id=i, name=f"environment {i}") for i in range(ENVIRONMENTS)),
    columns=corpus_columns(outputs=CLASSES, num_features=FEATURES, edge_features=EDGE_FEATURES),
    num_features=FEATURES,
)


def make_shard(shard: Shard) -> GraphTable:
    """Return the graphs of one shard: random trees with sorted edges in both directions."""
    generator = rng(SEED, "bench", "shard", shard.number)
    graphs = shard.stop - shard.start
    num_nodes = generator.integers(MIN_NODES, MAX_NODES, graphs, endpoint=True)
    node_ptr = pointers(num_nodes)
    edge_src, edge_dst = _tree_edges(generator, node_ptr)
    edge_ptr = pointers(2 * (num_nodes - 1))
    label = generator.integers(0, CLASSES, graphs, dtype=np.int32)
    return GraphTable(
        node_ptr=node_ptr,
        edge_ptr=edge_ptr,
        graph={
            "graph_id": np.arange(shard.start, shard.stop),
            "split": np.full(graphs, SPLITS.index(shard.split), np.int8),
            "env_id": generator.integers(0, ENVIRONMENTS, graphs, dtype=np.int32),
            "domain_id": np.full(graphs, -1, np.int32),
            "origin": np.full(graphs, ORIGINS.index("source"), np.int8),
            "y": np.eye(CLASSES, dtype=np.float32)[label],
            "label": label,
            **source_provenance(graphs),
        },
        node={"node_feat": _floats(generator, int(node_ptr[-1]), FEATURES)},
        edge={
            "edge_src": edge_src.astype(np.int32),
            "edge_dst": edge_dst.astype(np.int32),
            "edge_attr": _floats(generator, int(edge_ptr[-1]), EDGE_FEATURES),
        },
    )


def publish(
    store: Path,
    graphs: int,
    formats: Sequence[Format] = ("parquet",),
    make: Callable[[Shard], GraphTable] = make_shard,
    shard_graphs: int = SHARD_GRAPHS,
) -> Corpus:
    """Write a corpus of ``graphs`` training graphs as an artifact and open it.

    ``make`` returns the graphs of a shard.
    """
    shards = plan_shards({"train": graphs}, shard_graphs)
    identity = Identity(
        kind="corpus",
        stage="bench",
        stage_version=1,
        config={"graphs": graphs, "formats": list(formats), "shard_graphs": shard_graphs},
        seeds={"bench": SEED},
    )
    built = build_artifact(
        Store.at(store), identity, lambda draft: write_corpus(draft, INFO, shards, make, formats)
    )
    return Corpus(built.artifact)


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """Yield a directory that is removed at the end; the hot caches of gsx go there, too."""
    with tempfile.TemporaryDirectory(prefix="gsx-bench-") as folder:
        os.environ["GSX_CACHE"] = str(Path(folder) / "cache")
        yield Path(folder)


def _tree_edges(generator: np.random.Generator, node_ptr: Ints) -> tuple[Ints, Ints]:
    """Return both directions of the edges of random trees, sorted by graph, source and target.

    Node numbers start at 0 in every graph.
    """
    first = np.repeat(node_ptr[:-1], np.diff(node_ptr))
    local = np.arange(node_ptr[-1]) - first
    child = np.flatnonzero(local)
    parent = first[child] + (generator.random(len(child)) * local[child]).astype(np.int64)
    code = np.concatenate([child * node_ptr[-1] + parent, parent * node_ptr[-1] + child])
    code.sort()
    src, dst = np.divmod(code, node_ptr[-1])
    return src - first[src], dst - first[dst]


def _floats(generator: np.random.Generator, rows: int, width: int) -> np.ndarray:
    return generator.standard_normal((rows, width), dtype=np.float32)
