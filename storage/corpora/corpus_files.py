"""Files of a corpus artifact: its description and its shards."""

from __future__ import annotations

import msgspec

from gsx.errors import ArtifactError
from gsx.schema import SPLITS, CorpusInfo
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus_writer import FOLDERS, INFO, Format


def read_corpus_info(artifact: Artifact) -> CorpusInfo:
    """Read and check the description of a corpus."""
    where = f"{artifact.location.url}/{INFO}"
    try:
        data = artifact.location.read_bytes(INFO, limit=64 << 20)
        info = msgspec.json.decode(data, type=CorpusInfo)
    except (FileNotFoundError, msgspec.MsgspecError) as error:
        raise ArtifactError(f"{where} cannot be read: {error}") from error
    for column in info.columns:
        if column.name in ("split", "node_split") and column.vocabulary != SPLITS:
            raise ArtifactError(
                f"{where}: `{column.name}` uses split names that this gsx version does not define"
            )
    return info


def list_shards(artifact: Artifact, file_format: Format | None) -> list[tuple[str, str, int]]:
    """Return path, split and number of graphs of every shard, in corpus order."""
    files = artifact.manifest.files
    shards: dict[Format, list[tuple[str, str, int]]] = {"parquet": [], "zarr": []}
    for path, entry in files.items():
        if entry.rows is None:
            continue
        folder = path.split("/")[0]
        stored_as: Format = "parquet" if folder == FOLDERS["parquet"] else "zarr"
        unit = path.removesuffix("/zarr.json")
        split = unit.split("/")[1].split("-")[0]
        shards[stored_as].append((unit, split, entry.rows))
    chosen: Format = file_format or ("parquet" if shards["parquet"] else "zarr")
    if not shards[chosen]:
        available = [name for name, listed in shards.items() if listed] or "no shards at all"
        raise ArtifactError(
            f"{artifact.location.url} holds no {chosen} shards; it has {available}."
        )
    return sorted(shards[chosen], key=lambda shard: (split_order(shard[1]), shard[0]))


def split_order(split: str) -> int:
    """Return the position of a split in the corpus order."""
    return SPLITS.index(split) if split in SPLITS else len(SPLITS)
