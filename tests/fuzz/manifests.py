"""Manifests of edited artifacts: hash files again and find differences, independent of gsx."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from tests.fuzz.edits import replace
from tests.fuzz.sandbox import walk

SIDECARS = ("run.json", "manifest.json.minisig")


def copy_tree(source: Path, target: Path) -> None:
    """Copy an artifact; the copies are writable."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)


def read_manifest(root: Path) -> Any:
    """Return the manifest, or None if it is no JSON object with files."""
    path = root / "manifest.json"
    try:
        if path.is_symlink() or not path.is_file():
            return None
        manifest = json.loads(path.read_bytes())
        return manifest if isinstance(manifest["files"], dict) else None
    except (ValueError, KeyError, TypeError, RecursionError, OSError):
        return None


def rehash(root: Path, *, sync: bool) -> Any:
    """Write sizes, hashes, digest and key anew; ``sync`` also lists what was added or removed."""
    from gsx.storage.artifacts.digest import artifact_key, content_digest

    text = (root / "manifest.json").read_text(errors="replace")
    manifest = json.loads(text)
    files = manifest["files"]
    regular = {
        path.relative_to(root).as_posix(): path
        for path in walk(root)
        if path.is_file()
        and not path.is_symlink()
        and path.stat().st_size < 1 << 26
        and os.access(path, os.R_OK)
    }
    listed = {name for name in regular if name not in ("manifest.json", *SIDECARS)}
    if sync:
        manifest["files"] = files = {
            name: files.get(name, {"size": 0, "sha256": "", "rows": None})
            for name in sorted(listed)
        }
    for name, path in regular.items():
        if name in listed and isinstance(files.get(name), dict):
            data = path.read_bytes()
            files[name] |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    try:
        manifest["digest"] = content_digest({n: (f["size"], f["sha256"]) for n, f in files.items()})
        manifest["key"] = artifact_key(
            stage=manifest["stage"],
            stage_version=manifest["stage_version"],
            config=manifest["config"],
            inputs={parent["role"]: parent["digest"] for parent in manifest["parents"]},
            raw=manifest["raw"],
        )
        data = json.dumps(manifest, indent=2, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except Exception:
        return None
    # A special value of an edit would be lost by parsing, so the text is only patched then.
    if json.loads(text) == json.loads(data):
        return manifest
    replace(root / "manifest.json", data)
    return manifest


def manifest_place(manifest: Any, entry: dict[str, Any]) -> tuple[str, str]:
    """Return the directory names of an artifact in a store."""
    kind, key = entry["kind"], entry["key"]
    if isinstance(manifest, dict) and isinstance(manifest.get("key"), str):
        key = manifest["key"] if len(manifest["key"]) == 64 and manifest["key"].isalnum() else key
    return kind, key[:32]


def is_tampered(root: Path) -> str:
    """Return the first file that differs from the manifest, or ``""``."""
    manifest = read_manifest(root)
    if manifest is None:
        return ""
    files = manifest["files"]
    for path in walk(root):
        name = path.relative_to(root).as_posix()
        if path.is_dir() and not path.is_symlink():
            continue
        if name in ("manifest.json", *SIDECARS):
            continue
        if path.is_symlink() or not _is_file(path) or name not in files:
            return name
        entry = files[name]
        if not isinstance(entry, dict) or path.stat().st_size != entry.get("size"):
            return name
        is_readable = os.access(path, os.R_OK) and path.stat().st_size < 1 << 26
        if is_readable and hashlib.sha256(path.read_bytes()).hexdigest() != entry.get("sha256"):
            return name
    missing = [name for name in files if not _is_file(root / name)]
    return missing[0] if missing else ""


def _is_file(path: Path) -> bool:
    """Return whether a path is a regular file that can be reached."""
    try:
        return path.is_file()
    except PermissionError:  # in a folder without permissions
        return False
