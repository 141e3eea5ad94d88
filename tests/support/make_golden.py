"""Write the golden artifacts, tiny corpora with pinned bytes; run by `make golden`."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.provenance import source_provenance
from gsx.ragged import Ragged, encode_texts, pointers
from gsx.schema import SPLITS, Column, CorpusInfo, Environment, corpus_columns
from gsx.storage.artifacts.manifest import RUN_RECORD
from gsx.storage.artifacts.publish import Identity, build_artifact
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.corpus_writer import plan_shards, write_corpus
from gsx.table import GraphTable

GOLDEN = Path(__file__).parents[1] / "golden" / "v2"
VERSIONS = ("numpy", "pyarrow", "zarr", "numcodecs")


def motif(store: Store) -> Artifact:
    """Publish ten Motif graphs as Parquet."""
    recipe = parse_recipe('[prepare]\ndataset = "motif-size"\nnum_graphs = 10\n', "golden.toml")
    ((_, built),) = run_plan(make_plan(recipe), store)
    return built.artifact


def pages_info() -> CorpusInfo:
    """Return the schema of a node-labelled corpus with sparse features and text."""
    return CorpusInfo(
        name="pages",
        level="node",
        outputs=("course", "person"),
        domain="university",
        domains=("a", "b"),
        environments=(Environment(id=0, name="a"), Environment(id=1, name="b")),
        columns=corpus_columns(
            outputs=2,
            num_features=5,
            level="node",
            sparse=True,
            edge_features=2,
            edge_feature_dtype="int8",
            extras=(Column(name="title", axis="graph", dtype="text", ragged=True),),
        ),
        num_features=5,
    )


def pages_table() -> GraphTable:
    """Return a graph of four pages with three links, one self-loop and one missing label."""
    return GraphTable(
        node_ptr=pointers([4]),
        edge_ptr=pointers([4]),
        graph={
            "graph_id": np.array([7], np.int64),
            "split": np.array([SPLITS.index("all")], np.int8),
            "env_id": np.array([-1], np.int32),
            "domain_id": np.array([-1], np.int32),
            "origin": np.array([0], np.int8),
            "title": encode_texts(["Graphs, Größe und 図"]),
            **source_provenance(1),
        },
        node={
            "node_feat_index": Ragged(pointers([2, 0, 1, 3]), np.array([0, 4, 2, 0, 1, 3], "i4")),
            "node_feat_value": Ragged(pointers([2, 0, 1, 3]), np.array([1, 1, 0.5, 1, 1, 2], "f4")),
            "node_y": np.array([[1, 0], [0, 1], [np.nan, np.nan], [0.25, 0.75]], np.float32),
            "node_label": np.array([0, 1, -1, -1], np.int32),
            "node_env_id": np.array([0, 1, -1, 0], np.int32),
            "node_domain_id": np.array([0, 1, 1, -1], np.int32),
            "node_split": np.array([0, 1, 3, 4], np.int8),
        },
        edge={
            "edge_src": np.array([0, 1, 2, 3], np.int32),
            "edge_dst": np.array([1, 0, 2, 0], np.int32),
            "edge_attr": np.array([[0, 1], [0, 1], [5, -5], [2, 2]], np.int8),
        },
    )


def pages(store: Store) -> Artifact:
    """Publish the pages in both formats."""
    identity = Identity(kind="corpus", stage="golden", stage_version=1, config={"name": "pages"})
    built = build_artifact(
        store,
        identity,
        lambda draft: write_corpus(
            draft,
            pages_info(),
            plan_shards({"all": 1}, 10),
            lambda _: pages_table(),
            ("parquet", "zarr"),
        ),
    )
    return built.artifact


def main() -> None:
    """Replace the golden artifacts."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GSX_CACHE"] = str(Path(folder) / "cache")
        store = Store.at(Path(folder) / "store")
        shutil.rmtree(GOLDEN, ignore_errors=True)
        for name, make in (("motif", motif), ("pages", pages)):
            source = make(store).location.local
            shutil.copytree(source, GOLDEN / name, ignore=shutil.ignore_patterns(RUN_RECORD))
    versions = {name: version(name) for name in VERSIONS}
    (GOLDEN / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    main()
