"""A draft: the place where an artifact grows, unit by unit, until it is published.

Layout: ``content/`` becomes the artifact; ``progress/`` holds one record per finished unit, written
after the unit itself; ``scratch/`` holds what is being written. A crash leaves a draft from which
the next run keeps every unit whose files still match its record.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gsx.errors import ArtifactError
from gsx.storage.digest import readable_json, sha256_bytes, sha256_file
from gsx.storage.disk import (
    flush_directory,
    flush_file,
    regular_files,
    remove_tree,
    write_atomically,
)
from gsx.storage.manifest import FileEntry, check_path


class Unit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One finished piece of an artifact: a file, or a directory that is one Zarr group."""

    name: str
    """Path inside the artifact."""
    files: dict[str, FileEntry]
    """What the unit holds, by path inside the artifact."""
    facts: dict[str, Any] = {}
    """What the writer wants to remember, so that a resumed run need not read the unit."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A directory that becomes an artifact; may be used by many processes at once."""

    root: Path

    @property
    def content(self) -> Path:
        """The directory that is renamed into place."""
        return self.root / "content"

    def prepare(self) -> None:
        """Create the folders and clear what a crash left half-written."""
        remove_tree(self.root / "scratch")
        for name in ("content", "progress", "scratch"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        known = {path for unit in self.units() for path in unit.files}
        for path in list(regular_files(self.content)):
            if path.relative_to(self.content).as_posix() not in known:
                path.unlink()

    def write(
        self,
        name: str,
        write: Callable[[Path], dict[str, Any] | None],
        *,
        rows: int | None = None,
    ) -> Unit:
        """Write the unit ``name`` with ``write(path)``, unless a finished one is already here.

        ``write`` makes a file or a directory at the path it is given and may return facts.
        """
        check_path(name, "this stage")
        found = self.finished(name)
        if found is not None:
            return found
        scratch = self.root / "scratch" / f"{name.replace('/', '-')}.{os.getpid()}"
        target = self.content / name
        facts = write(scratch) or {}
        files = self._measure(scratch, name, rows)
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_tree(target) if target.is_dir() else target.unlink(missing_ok=True)
        scratch.rename(target)
        flush_directory(target.parent)
        unit = Unit(name=name, files=files, facts=facts)
        write_atomically(self._record(name), readable_json(unit))
        return unit

    def write_bytes(self, name: str, data: bytes) -> Unit:
        """Write a small file."""

        def write(path: Path) -> None:
            path.write_bytes(data)

        return self.write(name, write)

    def finished(self, name: str) -> Unit | None:
        """Return the unit if it was finished before and its files still have the same bytes."""
        unit = self._read_record(self._record(name))
        if unit is None:
            return None
        with contextlib.suppress(FileNotFoundError):
            if all(
                (self.content / path).stat().st_size == entry.size
                and sha256_file(self.content / path) == entry.sha256
                for path, entry in unit.files.items()
            ):
                return unit
        self._record(name).unlink(missing_ok=True)
        return None

    def units(self) -> list[Unit]:
        """Return every unit with a record, in the order of their names."""
        found = (self._read_record(path) for path in (self.root / "progress").glob("*.json"))
        return sorted((unit for unit in found if unit is not None), key=lambda unit: unit.name)

    def _record(self, name: str) -> Path:
        return self.root / "progress" / f"{sha256_bytes(name.encode())[:32]}.json"

    def _read_record(self, path: Path) -> Unit | None:
        try:
            return msgspec.json.decode(path.read_bytes(), type=Unit)
        except (FileNotFoundError, msgspec.DecodeError, msgspec.ValidationError):
            return None

    def _measure(self, scratch: Path, name: str, rows: int | None) -> dict[str, FileEntry]:
        paths = list(regular_files(scratch)) if scratch.is_dir() else [scratch]
        if not paths:
            raise ArtifactError(f"unit {name} was written without any file")
        files = {}
        for path in paths:
            flush_file(path)
            inside = path.relative_to(scratch).as_posix()
            full = name if path == scratch else check_path(f"{name}/{inside}", "this stage")
            files[full] = FileEntry(
                size=path.stat().st_size,
                sha256=sha256_file(path),
                rows=rows if path == scratch or inside == "zarr.json" else None,
            )
        return files
