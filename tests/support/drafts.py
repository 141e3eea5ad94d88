"""Inspect the drafts and published artifacts of a local store."""

import contextlib
import json
from pathlib import Path


def finished_files(store):
    """Return path → inode of every file of a finished unit of the draft."""
    inodes = {}
    for draft in sorted((store / ".drafts").glob("*")):
        for record in [*draft.glob("progress/*.json"), *draft.glob("earlier/*.json")]:
            with contextlib.suppress(FileNotFoundError):  # reused at this very moment
                for path in json.loads(record.read_bytes())["files"]:
                    inodes[path] = (draft / "content" / path).stat().st_ino
    return inodes


def published_files(store):
    """Return path inside the artifact → inode of every file of the only published corpus."""
    inodes = {}
    for root in (store / "corpus").glob("*"):
        files = (path for path in root.rglob("*") if path.is_file())
        inodes |= {path.relative_to(root).as_posix(): path.stat().st_ino for path in files}
    return inodes


def leftover_files(store):
    """Return all files of a store other than artifacts and locks."""
    return [
        path
        for path in store.rglob("*")
        if path.name.endswith(".tmp")
        or (".drafts" in path.parts and path.name != ".drafts")
        or (path.name.startswith(".") and path.name not in (".drafts", ".locks"))
    ]


def num_finished_units(store):
    """Return the number of finished units in all drafts, including those of earlier runs."""
    return sum(
        1 for name in ("progress", "earlier") for _ in Path(store).glob(f".drafts/*/{name}/*.json")
    )
