"""Valid artifacts of kind ``model`` without a training run, for stores with many artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gsx.storage.artifacts.digest import sha256_bytes
from gsx.storage.artifacts.manifest import (
    MANIFEST,
    FileEntry,
    Manifest,
    Parent,
    encode_manifest,
    files_digest,
    manifest_key,
)
from gsx.storage.artifacts.store import NAME_LENGTH

SPLITS = ("id_val", "id_test", "ood_val", "ood_test")
RULES = ("last", "ood_val", "id_val")


def write_model(store: Path, corpus: Manifest, seed: int) -> Manifest:
    """Write a model of a corpus with one small file, and return its manifest."""
    data = f"weights of seed {seed}".encode()
    files = {"weights.safetensors": FileEntry(size=len(data), sha256=sha256_bytes(data))}
    scores = {"epoch": 9, **dict.fromkeys(SPLITS, 50.0 + seed % 40)}
    quality = {
        "metric": "accuracy",
        "selected": "last",
        "selection": {rule: dict(scores) for rule in RULES},
    }
    manifest = with_key(
        Manifest(
            kind="model",
            key="",
            digest=files_digest(files),
            stage="train",
            stage_version=3,
            config={"seed": seed, "epochs": 100, "width": 300, "learning_rate": 0.001},
            parents=(parent_of("corpus" if corpus.stage == "generate" else "source", corpus),),
            seeds={"train": seed},
            files=files,
            counts={"graphs": 600},
            summary={"name": "motif-size", "quality": quality},
        )
    )
    folder = store / "model" / manifest.key[:NAME_LENGTH]
    folder.mkdir(parents=True)
    (folder / "weights.safetensors").write_bytes(data)
    (folder / MANIFEST).write_bytes(encode_manifest(manifest))
    return manifest


def parent_of(role: str, manifest: Manifest) -> Parent:
    """Return the entry of an input in the manifest of another artifact."""
    return Parent(role=role, kind=manifest.kind, key=manifest.key, digest=manifest.digest)


def with_key(manifest: Manifest, changes: Mapping[str, Any] | None = None) -> Manifest:
    """Return a manifest with changed fields and the key that they give."""
    fields = {name: getattr(manifest, name) for name in manifest.__struct_fields__}
    fields |= changes or {}
    return Manifest(**{**fields, "key": manifest_key(Manifest(**fields))})
