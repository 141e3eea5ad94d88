"""Change files of an artifact and make its manifest valid again, as an attacker would."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from gsx.storage.artifacts.digest import artifact_key
from gsx.storage.artifacts.manifest import FileEntry, files_digest


def edit_file(folder: Path, name: str, change) -> None:
    """Replace a JSON file by ``change`` of its content; the manifest is not changed."""
    document = json.loads((folder / name).read_bytes())
    changed = change(document)
    text = json.dumps(document if changed is None else changed)
    (folder / name).chmod(0o644)
    (folder / name).write_text(text)


def rewrite_manifest(folder: Path, change=lambda document: None) -> None:
    """Apply ``change`` to the manifest, then hash all files and compute digest and key again."""
    path = folder / "manifest.json"
    document = json.loads(path.read_bytes())
    document["files"] = {
        name: entry for name, entry in document["files"].items() if (folder / name).exists()
    }
    for name, entry in document["files"].items():
        data = (folder / name).read_bytes()
        entry |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    change(document)
    files = {name: FileEntry(**entry) for name, entry in document["files"].items()}
    document["digest"] = files_digest(files)
    document["key"] = artifact_key(
        stage=document["stage"],
        stage_version=document["stage_version"],
        config=document["config"],
        inputs={parent["role"]: parent["digest"] for parent in document["parents"]},
        raw=document["raw"],
    )
    path.chmod(0o644)
    path.write_text(json.dumps(document))
