"""A draft: the place where an artifact grows, unit by unit, until it is published.

Layout: ``content/`` becomes the artifact; ``progress/`` holds one record per finished unit, written
after the unit itself; ``scratch/`` holds what is being written; ``source`` names the code at work.
A crash leaves a draft. The next run sets its records aside in ``earlier/`` and takes back each unit
that it asks for, if the files still match the record; what nobody asks for is not published.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gsx.errors import ArtifactError
from gsx.storage.artifacts.atomic_files import (
    flush_directory,
    flush_file,
    regular_files,
    remove_tree,
    write_atomically,
)
from gsx.storage.artifacts.digest import readable_json, sha256_bytes, sha256_file
from gsx.storage.artifacts.location import Place
from gsx.storage.artifacts.manifest import FileEntry, check_path


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
    target: Place | None = None
    """Where it will be published, for those who put files there at once."""

    @property
    def content(self) -> Path:
        """The directory that is renamed into place."""
        return self.root / "content"

    @property
    def scratch(self) -> Path:
        """The directory for what is not part of the artifact; cleared before every run."""
        return self.root / "scratch"

    def prepare(self, source: str = "") -> bool:
        """Create the folders, clear what a crash left half-written and set earlier units aside.

        ``source`` names the code that fills the draft. Units made by other code are thrown away:
        two versions never mix in one artifact. Returns whether that happened.
        """
        mark = self.root / "source"
        other = self.root.exists() and (not mark.is_file() or mark.read_bytes() != source.encode())
        lost = other and bool(self._records("progress") + self._records("earlier"))
        if other:
            remove_tree(self.root)
        remove_tree(self.scratch)
        for name in ("content", "progress", "earlier", "scratch"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        write_atomically(mark, source.encode())
        for record in self._records("progress"):
            record.replace(self.root / "earlier" / record.name)
        self._sweep("earlier")
        return lost

    def is_empty(self) -> bool:
        """Say whether no unit is finished, of this run or an earlier one."""
        return not (self._records("progress") or self._records("earlier"))

    def seal(self) -> dict[str, FileEntry]:
        """Remove all that is not a unit of this run and return the files that stay, by path."""
        self._sweep("progress")
        return {path: entry for unit in self.units() for path, entry in unit.files.items()}

    def _sweep(self, folder: str) -> None:
        known = {path for unit in self._read_records(folder) for path in unit.files}
        for path in list(regular_files(self.content)):
            if path.relative_to(self.content).as_posix() not in known:
                path.unlink()
        for path in sorted(self.content.rglob("*"), reverse=True):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()

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
        # Two workers may write one unit at once, on machines that number processes alike.
        scratch = self.scratch / f"{_short(name)}.{secrets.token_hex(8)}"
        facts = write(scratch) or {}
        files = self._measure(scratch, name, rows)
        self._place(scratch, name)
        unit = Unit(name=name, files=files, facts=facts)
        self.record(unit)
        return unit

    def record(self, unit: Unit) -> None:
        """Remember that a unit is finished; its files may lie at the target already."""
        write_atomically(self._record(unit.name), readable_json(unit))

    def _place(self, scratch: Path, name: str) -> None:
        """Rename what was written to where it belongs, over what an equal writer put there.

        ``content`` is never made anew: where it is gone, the artifact was published while this
        worker was thought dead.
        """
        target = self.content
        for part in Path(name).parent.parts:
            target = target / part
            target.mkdir(exist_ok=True)
        target = self.content / name
        while True:
            if scratch.is_dir() or target.is_dir():
                remove_tree(target)
            try:
                scratch.replace(target)
                break
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
        flush_directory(target.parent)

    def write_bytes(self, name: str, data: bytes) -> Unit:
        """Write a small file."""

        def write(path: Path) -> None:
            path.write_bytes(data)

        return self.write(name, write)

    def finished(self, name: str) -> Unit | None:
        """Return the unit if it was finished before and its files still have the same bytes."""
        record = self._record(name)
        earlier = self.root / "earlier" / record.name
        unit = self._read_record(record) or self._read_record(earlier)
        if unit is None:
            return None
        if unit.name == name and all(self._unchanged(*item) for item in unit.files.items()):
            if not record.exists():
                earlier.replace(record)
            return unit
        for path in (record, earlier):
            path.unlink(missing_ok=True)
        return None

    def forget(self, name: str) -> None:
        """Give up a unit of an earlier run, because something it belongs to is missing."""
        record = self._record(name)
        for path in (record, self.root / "earlier" / record.name):
            path.unlink(missing_ok=True)

    def seen(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return inode and change time of the records of some units: the same if none was made."""
        found = []
        for name in names:
            record = self._record(name)
            for path in (record, self.root / "earlier" / record.name):
                with contextlib.suppress(FileNotFoundError):
                    stat = path.stat()
                    found.append((stat.st_ino, stat.st_mtime_ns))
                    break
        return found

    def named(self, names: Sequence[str]) -> list[Unit]:
        """Return what the records say of some units; those without one are left out."""
        found = (self._read_record(self._record(name)) for name in names)
        return [unit for unit in found if unit is not None]

    def units(self) -> list[Unit]:
        """Return every unit that this run wrote or took back, in the order of their names."""
        return sorted(self._read_records("progress"), key=lambda unit: unit.name)

    def _unchanged(self, path: str, entry: FileEntry) -> bool:
        file = self.content / path
        plain = file.is_file() and not file.is_symlink()
        return plain and file.stat().st_size == entry.size and sha256_file(file) == entry.sha256

    def _record(self, name: str) -> Path:
        return self.root / "progress" / f"{_short(name)}.json"

    def _records(self, folder: str) -> list[Path]:
        return sorted((self.root / folder).glob("*.json"))

    def _read_records(self, folder: str) -> list[Unit]:
        found = (self._read_record(path) for path in self._records(folder))
        return [unit for unit in found if unit is not None]

    def _read_record(self, path: Path) -> Unit | None:
        """Return what a record says; None when there is none or it was tampered with."""
        try:
            unit = msgspec.json.decode(path.read_bytes(), type=Unit)
            for name in unit.files:
                check_path(name, str(path))
        except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError, ArtifactError):
            return None
        return unit

    def _measure(self, scratch: Path, name: str, rows: int | None) -> dict[str, FileEntry]:
        folder = scratch.is_dir() and not scratch.is_symlink()
        paths = list(regular_files(scratch)) if folder else [scratch]
        if not paths or not scratch.exists():
            raise ArtifactError(f"unit {name} was written without any file")
        files = {}
        for path in paths:
            if path.is_symlink() or not path.is_file():
                inside = "" if path == scratch else f"/{path.relative_to(scratch).as_posix()}"
                raise ArtifactError(f"{name}{inside} is not a plain file; links cannot be stored")
            flush_file(path)
            inside = path.relative_to(scratch).as_posix()
            full = name if path == scratch else check_path(f"{name}/{inside}", "this stage")
            files[full] = FileEntry(
                size=path.stat().st_size,
                sha256=sha256_file(path),
                rows=rows if path == scratch or inside == "zarr.json" else None,
            )
        return files


def _short(name: str) -> str:
    """Return a file name for a unit; a path may be too long for one."""
    return sha256_bytes(name.encode())[:32]
