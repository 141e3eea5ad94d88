"""A portable corpus: the shards as they are, and beside them all a stranger needs to use them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import resources

import numpy as np

from gsx.ragged import Array, Ragged, decode_texts
from gsx.schema import ORIGINS, SPLITS
from gsx.stages.export import card, croissant
from gsx.stages.export.request import Given
from gsx.storage.artifacts.lineage import LINEAGE
from gsx.storage.artifacts.manifest import encode_manifest
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import FOLDERS
from gsx.storage.corpora.parquet import write_parquet
from gsx.storage.sharing.bundle import Bundle
from gsx.storage.sharing.csv_file import write_csv

LOADER = "load_pyg.py"
_INDEX = ("graph_id", "env_id", "domain_id", "origin")


def fill(bundle: Bundle, given: Given) -> None:
    """Write the portable form of a corpus."""
    corpus = given.corpus
    with ThreadPoolExecutor(1) as beside:
        tables = beside.submit(_splits, bundle, corpus)
        _shards(bundle, corpus)
        origins = tables.result()
    for manifest in given.lineage:
        name = f"{LINEAGE}/{manifest.kind}-{manifest.key[:12]}.json"
        bundle.add(name, encode_manifest(manifest))
    bundle.add(LOADER, resources.files("gsx.stages.export.templates").joinpath(LOADER).read_bytes())
    bundle.add("README.md", card.text(given, origins).encode())
    bundle.add("croissant.json", croissant.document(given, bundle.files))


def _shards(bundle: Bundle, corpus: Corpus) -> None:
    """Carry every file but Zarr groups; shards a corpus has as Zarr alone are encoded."""
    away = (f"{FOLDERS['zarr']}/", f"{LINEAGE}/")
    kept = [
        name
        for name in corpus.artifact.manifest.files
        if not name.startswith(away) and name not in _MADE_HERE
    ]
    bundle.copy_files(corpus.artifact, kept)
    for number, shard in enumerate(corpus.shards):
        name = shard.path("parquet")
        if name not in bundle.files:
            table = corpus.read_shard(number)
            write = partial(write_parquet, tables=(table,), info=corpus.info)
            bundle.write(name, write, rows=len(table))


_MADE_HERE = {"README.md", "croissant.json", LOADER, "SHA256SUMS"} | {
    f"splits/{split}.csv" for split in SPLITS
}
"""Files of a portable corpus that is exported again; they are made anew."""


def _splits(bundle: Bundle, corpus: Corpus) -> dict[str, set[str]]:
    """Write one plain table per split: which graphs, or which nodes, belong to it.

    Returns the origins of the graphs of every Parquet file.
    """
    if corpus.info.level == "node":
        _node_splits(bundle, corpus)
        return {shard.path("parquet"): {"source"} for shard in corpus.shards}
    origins = {}
    names = [*_INDEX, "label"]
    if any(column.name == "smiles" for column in corpus.info.columns):
        names.append("smiles")
    parts: dict[str, list[dict[str, Array | list[str]]]] = {}
    for number, shard in enumerate(corpus.shards):
        found = corpus.graph_columns(number, names)
        rows: dict[str, Array | list[str]] = {}
        for name in (*_INDEX, "num_nodes", "num_edges", *names[len(_INDEX) :]):
            values = found[name]
            rows[name] = decode_texts(values) if isinstance(values, Ragged) else values
        codes = np.asarray(found["origin"])
        origins[shard.path("parquet")] = {ORIGINS[code] for code in np.unique(codes).tolist()}
        rows["origin"] = np.array(ORIGINS)[codes]
        parts.setdefault(shard.split, []).append(rows)
    for split, rows_of_split in parts.items():
        columns = {name: _joined([part[name] for part in rows_of_split]) for name in rows}
        bundle.write(f"splits/{split}.csv", partial(write_csv, blocks=[columns]))
    return origins


def _joined(parts: Sequence[Array | list[str]]) -> Array | list[str]:
    if isinstance(parts[0], list):
        return [text for part in parts for text in part]
    return np.concatenate(parts)


def _node_splits(bundle: Bundle, corpus: Corpus) -> None:
    """Write which nodes belong to a split; held-out nodes of replicas are those of the source."""
    names = ["graph_id", "origin", "node_split", "node_env_id", "node_domain_id", "node_label"]
    table = corpus.table(columns=names)
    graph = np.repeat(table.dense("graph", "graph_id"), table.num_nodes)
    node = np.arange(table.total_nodes) - np.repeat(table.node_ptr[:-1], table.num_nodes)
    codes = table.dense("node", "node_split")
    again = np.repeat(table.dense("graph", "origin") != ORIGINS.index("source"), table.num_nodes)
    for code in np.unique(codes).tolist():
        rows = (codes == code) & ~(again & (code != SPLITS.index("train")))
        columns = {"graph_id": graph[rows], "node": node[rows]} | {
            name.removeprefix("node_"): table.dense("node", name)[rows] for name in names[3:]
        }
        bundle.write(f"splits/{SPLITS[code]}.csv", partial(write_csv, blocks=[columns]))
