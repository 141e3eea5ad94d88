"""Format ``portable``: the shards of a corpus, with metadata and a loader for users without gsx."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import resources

import numpy as np

from gsx.errors import ArtifactError
from gsx.ragged import Array, Ragged, decode_texts
from gsx.schema import ORIGINS, SPLITS
from gsx.stages.export import card, croissant
from gsx.stages.export.request import ExportRequest
from gsx.stages.sharded_build import hashes_path
from gsx.storage.artifacts.lineage import LINEAGE
from gsx.storage.artifacts.manifest import encode_manifest
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import ENV_TABLE, INFO
from gsx.storage.corpora.parquet import write_parquet
from gsx.storage.sharing.bundle import Bundle
from gsx.storage.sharing.csv_file import write_csv

LOADER = "load_pyg.py"
_INDEX = ("graph_id", "env_id", "domain_id", "origin")


def write(bundle: Bundle, request: ExportRequest) -> None:
    """Write shards, splits, lineage, PyG loader, dataset card and Croissant metadata."""
    corpus = request.corpus
    with ThreadPoolExecutor(1) as pool:
        split_tables = pool.submit(_write_splits, bundle, corpus)
        _copy_shards(bundle, corpus)
        origins = split_tables.result()
    for manifest in request.lineage:
        name = f"{LINEAGE}/{manifest.kind}-{manifest.key[:12]}.json"
        bundle.add(name, encode_manifest(manifest))
    bundle.add(LOADER, resources.files("gsx.stages.export.templates").joinpath(LOADER).read_bytes())
    try:
        readme = card.dataset_card(request, origins).encode()
        metadata = croissant.croissant_json(request, bundle.files)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"{corpus.artifact.location.url}: the dataset card cannot be written, because the "
            f"manifest or its lineage does not describe a corpus ({error!r}). Nothing was written. "
            "Get the corpus from its source again, or use `--to csv`."
        ) from error
    bundle.add("README.md", readme)
    bundle.add("croissant.json", metadata)


def _copy_shards(bundle: Bundle, corpus: Corpus) -> None:
    """Copy description, Parquet files and WL hashes; other files of a manifest are not copied.

    Shards that are stored as Zarr only are written as Parquet files.
    """
    shards = corpus.shards
    names = [INFO, ENV_TABLE, *(shard.path("parquet") for shard in shards)]
    names += [hashes_path(shard) for shard in shards]
    bundle.copy_files(corpus.artifact, [n for n in names if n in corpus.artifact.manifest.files])
    for shard_index, shard in enumerate(corpus.shards):
        name = shard.path("parquet")
        if name not in bundle.files:
            table = corpus.read_shard(shard_index)
            write = partial(write_parquet, tables=(table,), info=corpus.info)
            bundle.write(name, write, rows=len(table))


def _write_splits(bundle: Bundle, corpus: Corpus) -> dict[str, set[str]]:
    """Write one CSV file per split that lists its graphs or nodes.

    Return the origins of the graphs of every Parquet file.
    """
    if corpus.info.level == "node":
        _write_node_splits(bundle, corpus)
        return {shard.path("parquet"): {"source"} for shard in corpus.shards}
    origins = {}
    names = [*_INDEX, "label"]
    if any(column.name == "smiles" for column in corpus.info.columns):
        names.append("smiles")
    rows_by_split: dict[str, list[dict[str, Array | list[str]]]] = {}
    for shard_index, shard in enumerate(corpus.shards):
        stored = corpus.graph_columns(shard_index, names)
        rows: dict[str, Array | list[str]] = {}
        for name in (*_INDEX, "num_nodes", "num_edges", *names[len(_INDEX) :]):
            values = stored[name]
            rows[name] = decode_texts(values) if isinstance(values, Ragged) else values
        codes = np.asarray(stored["origin"])
        origins[shard.path("parquet")] = {ORIGINS[code] for code in np.unique(codes).tolist()}
        rows["origin"] = np.array(ORIGINS)[codes]
        rows_by_split.setdefault(shard.split, []).append(rows)
    for split, split_rows in rows_by_split.items():
        columns = {name: _concat([shard_rows[name] for shard_rows in split_rows]) for name in rows}
        bundle.write(f"splits/{split}.csv", partial(write_csv, blocks=[columns]))
    return origins


def _concat(blocks: Sequence[Array | list[str]]) -> Array | list[str]:
    if isinstance(blocks[0], list):
        return [text for block in blocks for text in block]
    return np.concatenate(blocks)


def _write_node_splits(bundle: Bundle, corpus: Corpus) -> None:
    """Write the nodes of every split; held-out nodes are listed once, in their source graph."""
    names = ["graph_id", "origin", "node_split", "node_env_id", "node_domain_id", "node_label"]
    table = corpus.table(columns=names)
    graph = np.repeat(table.dense("graph", "graph_id"), table.num_nodes)
    node = np.arange(table.total_nodes) - np.repeat(table.node_ptr[:-1], table.num_nodes)
    codes = table.dense("node", "node_split")
    is_replica = np.repeat(
        table.dense("graph", "origin") != ORIGINS.index("source"), table.num_nodes
    )
    for code in np.unique(codes).tolist():
        rows = (codes == code) & ~(is_replica & (code != SPLITS.index("train")))
        columns = {"graph_id": graph[rows], "node": node[rows]} | {
            name.removeprefix("node_"): table.dense("node", name)[rows] for name in names[3:]
        }
        bundle.write(f"splits/{SPLITS[code]}.csv", partial(write_csv, blocks=[columns]))
