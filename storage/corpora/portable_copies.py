"""Portable copies: directories that hold the files of a corpus, written by ``gsx export``.

A portable copy has a manifest of its own, which also covers the dataset card and the loader. It
includes the manifest of the corpus that it was made from. If all data files are listed there with
the same hashes, the copy *is* this corpus: artifacts that are built from it get the keys and the
lineage that they would get from the corpus itself.
"""

from __future__ import annotations

from gsx.errors import ArtifactError
from gsx.limits import MANIFEST_BYTES
from gsx.storage.artifacts.lineage import LINEAGE
from gsx.storage.artifacts.manifest import Manifest, decode_manifest
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus_writer import INFO

EXPORT = "export"
"""Stage that writes copies."""
_ADDED_FILES = ("README.md", "croissant.json", "load_pyg.py", "SHA256SUMS")
_ADDED_FOLDERS = ("splits/", f"{LINEAGE}/")
"""Files of a copy that the corpus does not have; no stage reads them."""


def is_portable_copy(artifact: Artifact) -> bool:
    """Return whether an artifact is an export in the portable layout."""
    return artifact.manifest.kind == "corpus" and artifact.manifest.stage == EXPORT


def identity(artifact: Artifact) -> Manifest:
    """Return the manifest of the corpus that a portable copy holds; else the artifact's own.

    A copy whose data files are not exactly those of the corpus, such as Parquet files of a corpus
    that is stored as Zarr, has an identity of its own.
    """
    own = artifact.manifest
    if not is_portable_copy(artifact) or len(own.parents) != 1:
        return own
    parent = own.parents[0]
    name = f"{LINEAGE}/{parent.kind}-{parent.key[:12]}.json"
    entry = own.files.get(name)
    if entry is None or entry.size > MANIFEST_BYTES.value:
        return own
    try:
        data = artifact.location.read_bytes(name, limit=entry.size)
        source = decode_manifest(data, f"{artifact.location.url}/{name}")
    except (ArtifactError, FileNotFoundError):
        return own
    same = (source.kind, source.key, source.digest) == (parent.kind, parent.key, parent.digest)
    return source if same and source.stage != EXPORT and _same_data(own, source) else own


def _same_data(copy: Manifest, source: Manifest) -> bool:
    """Return whether all data files of a copy are those of the corpus, and no shard is missing."""
    data = {
        name: entry
        for name, entry in copy.files.items()
        if name not in _ADDED_FILES and not name.startswith(_ADDED_FOLDERS)
    }
    shards = {name for name, entry in source.files.items() if entry.rows is not None}
    parquet = {name for name in shards if name.endswith(".parquet")}
    return (
        INFO in data
        and bool(parquet)
        and parquet <= data.keys()
        and all(source.files.get(name) == entry for name, entry in data.items())
    )
