"""Files of a corpus artifact: its description and its shards."""

from __future__ import annotations

import re

from gsx.errors import ArtifactError, SchemaError
from gsx.schema import SPLITS, CorpusInfo, check_standard_columns
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import JsonFile, JsonFiles, read_json
from gsx.storage.corpora.corpus_writer import ENV_TABLE, INFO, Format
from gsx.storage.corpora.summary import EnvironmentRow

CORPUS_FILES: JsonFiles = {INFO: JsonFile(CorpusInfo), ENV_TABLE: JsonFile(list[EnvironmentRow])}

_SHARD: dict[Format, re.Pattern[str]] = {
    "parquet": re.compile(r"data/([a-z_]+)-\d{5,}-of-\d{5,}\.parquet"),
    "zarr": re.compile(r"zarr/([a-z_]+)-\d{5,}-of-\d{5,}/zarr\.json"),
}


def read_corpus_info(artifact: Artifact) -> CorpusInfo:
    """Read and check the description of a corpus."""
    info = read_json(artifact.location, INFO, CorpusInfo)
    try:
        return check_standard_columns(info)
    except SchemaError as error:
        raise ArtifactError(f"{artifact.location.url}/{INFO} cannot be used: {error}") from error


def check_corpus_files(artifact: Artifact) -> None:
    """Raise ArtifactError unless every JSON file that a copy of a corpus includes can be read."""
    for name, file in CORPUS_FILES.items():
        if name in artifact.manifest.files:
            file.read(artifact.location, name)


def list_shards(artifact: Artifact, file_format: Format | None) -> list[tuple[str, str, int]]:
    """Return path, split and number of graphs of every shard, in corpus order."""
    shards: dict[Format, list[tuple[str, str, int]]] = {"parquet": [], "zarr": []}
    for path, entry in artifact.manifest.files.items():
        if entry.rows is not None:
            stored_as, unit, split = _parse_shard_path(path, artifact.location.url)
            shards[stored_as].append((unit, split, entry.rows))
    chosen: Format = file_format or ("parquet" if shards["parquet"] else "zarr")
    if not shards[chosen]:
        available = [name for name, listed in shards.items() if listed] or "no shards at all"
        raise ArtifactError(
            f"{artifact.location.url} holds no {chosen} shards; it has {available}."
        )
    return sorted(shards[chosen], key=lambda shard: (split_order(shard[1]), shard[0]))


def _parse_shard_path(path: str, where: str) -> tuple[Format, str, str]:
    """Return format, path without the name of Zarr metadata, and split of a shard."""
    for file_format, pattern in _SHARD.items():
        match = pattern.fullmatch(path)
        if match and match[1] in SPLITS:
            return file_format, path.removesuffix("/zarr.json"), match[1]
    raise ArtifactError(
        f"{where}: the manifest lists graphs in {path!r}, which is not the name of a shard. Get "
        "the artifact from its source again."
    )


def split_order(split: str) -> int:
    """Return the position of a split in the corpus order."""
    return SPLITS.index(split) if split in SPLITS else len(SPLITS)
