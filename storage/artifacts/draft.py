"""Drafts: artifacts under construction, built unit by unit and then published.

Layout: ``content/`` becomes the artifact; ``progress/`` holds one record per finished unit, written
after the unit itself; ``scratch/`` holds files being written; ``source`` identifies the code that
builds the draft. After a crash the draft remains. The next run moves its records to ``earlier/``
and reuses each unit it needs if the files still match the record. Other units are not published.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gsx import typed_values
from gsx.errors import ArtifactError
from gsx.limits import STATISTICS_BYTES
from gsx.storage.artifacts.atomic_files import (
    atomic_write,
    fsync_directory,
    fsync_file,
    iter_files,
    remove_tree,
    translate_safetensors_errors,
)
from gsx.storage.artifacts.digest import read_at_most, readable_json, sha256_bytes, sha256_file
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import FileEntry, check_path
from gsx.storage.artifacts.safe_files import open_regular, remove_links, require_directory

if TYPE_CHECKING:
    from gsx.ragged import Array


class Unit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One finished unit of an artifact: a file, or the directory of one Zarr group."""

    name: str
    """Path inside the artifact."""
    files: dict[str, FileEntry]
    """Files of the unit, by path inside the artifact."""
    stats: dict[str, Any] = msgspec.field(default_factory=dict, name="facts")
    """Statistics from the writer, so that a resumed run does not read the unit."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A directory that becomes an artifact; several processes may write to it at once."""

    root: Path
    target: Location | None = None
    """Where the artifact will be published; workers upload finished shards there."""

    @property
    def content(self) -> Path:
        """The directory that is renamed to the published artifact."""
        return self.root / "content"

    @property
    def scratch(self) -> Path:
        """The directory for temporary files; cleared before every run."""
        return self.root / "scratch"

    def prepare(self, source: str = "") -> bool:
        """Create the folders, remove partially written files and set earlier units aside.

        ``source`` identifies the code that builds the draft. Units of different code are deleted,
        so that one artifact never mixes two versions. Return whether finished units were deleted.
        """
        if self.root.exists():
            require_directory(self.root.parent, self.root.name)
            remove_links(self.root)
        source_file = self.root / "source"
        outdated = self.root.exists() and self._read_source() != source.encode()
        deleted = outdated and bool(self._records("progress") + self._records("earlier"))
        if outdated:
            remove_tree(self.root)
        remove_tree(self.scratch)
        for name in ("content", "progress", "earlier", "scratch"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        atomic_write(source_file, source.encode())
        for record in self._records("progress"):
            record.replace(self.root / "earlier" / record.name)
        self._remove_unrecorded("earlier")
        return deleted

    def _read_source(self) -> bytes | None:
        """Return the hash of the code of an earlier run; None if there is none."""
        try:
            with open_regular(self.root, "source") as stream:
                return read_at_most(stream, 1 << 10)
        except (FileNotFoundError, ArtifactError):
            return None

    def is_empty(self) -> bool:
        """Return whether there is no finished unit, of this run or an earlier one."""
        return not (self._records("progress") or self._records("earlier"))

    def seal(self) -> dict[str, FileEntry]:
        """Remove everything except units of this run and return their files, by path."""
        self._remove_unrecorded("progress")
        return {path: entry for unit in self.units() for path, entry in unit.files.items()}

    def _remove_unrecorded(self, folder: str) -> None:
        recorded = {path for unit in self._read_records(folder) for path in unit.files}
        for path in list(iter_files(self.content)):
            if path.relative_to(self.content).as_posix() not in recorded:
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
        """Write the unit ``name`` with ``write(path)``, unless it is already finished.

        ``write`` creates a file or a directory at the path it receives and may return statistics.
        """
        check_path(name, "this stage")
        finished = self.find_finished(name)
        if finished is not None:
            return finished
        # The name is random: two workers on different machines, with equal process ids, may write
        # the same unit at once.
        scratch = self.scratch / f"{_hashed(name)}.{secrets.token_hex(8)}"
        stats = write(scratch) or {}
        files = self._fsync_and_hash(scratch, name, rows)
        self._move_to_content(scratch, name)
        unit = Unit(name=name, files=files, stats=stats)
        self.record(unit)
        return unit

    def record(self, unit: Unit) -> None:
        """Record that a unit is finished; its files may already be at the target."""
        atomic_write(self._record(unit.name), readable_json(unit))

    def _move_to_content(self, scratch: Path, name: str) -> None:
        """Rename a written unit to its final path, replacing an equal unit of another writer.

        ``content`` is never created here: if it is missing, the artifact was published while this
        worker was considered dead.
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
        fsync_directory(target.parent)

    def write_bytes(self, name: str, data: bytes) -> Unit:
        """Write a small file."""

        def write(path: Path) -> None:
            path.write_bytes(data)

        return self.write(name, write)

    def write_arrays(self, name: str, arrays: Mapping[str, Array]) -> Unit:
        """Write arrays as one safetensors file."""
        import numpy as np
        from safetensors.numpy import save_file

        def write(path: Path) -> None:
            contiguous = {key: np.ascontiguousarray(values) for key, values in arrays.items()}
            with translate_safetensors_errors():
                save_file(contiguous, path)

        return self.write(name, write)

    def find_finished(self, name: str) -> Unit | None:
        """Return the unit if it was finished before and its files are unchanged."""
        record = self._record(name)
        earlier = self.root / "earlier" / record.name
        unit = self._read_record(record) or self._read_record(earlier)
        if unit is None:
            return None
        if unit.name == name and all(self._is_unchanged(*item) for item in unit.files.items()):
            if not record.exists():
                earlier.replace(record)
            return unit
        for path in (record, earlier):
            path.unlink(missing_ok=True)
        return None

    def discard(self, name: str) -> None:
        """Remove the record of a unit, so that the unit is built again."""
        record = self._record(name)
        for path in (record, self.root / "earlier" / record.name):
            path.unlink(missing_ok=True)

    def record_stamps(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return inode and modification time of the records of units.

        The result stays the same as long as none of the units is written.
        """
        stamps = []
        for name in names:
            record = self._record(name)
            for path in (record, self.root / "earlier" / record.name):
                with contextlib.suppress(FileNotFoundError):
                    stat = path.stat()
                    stamps.append((stat.st_ino, stat.st_mtime_ns))
                    break
        return stamps

    def find_units(self, names: Sequence[str]) -> list[Unit]:
        """Return the units of this run among ``names``; units without a record are left out."""
        records = (self._read_record(self._record(name)) for name in names)
        return [unit for unit in records if unit is not None]

    def units(self) -> list[Unit]:
        """Return every unit that this run wrote or reused, sorted by name."""
        return sorted(self._read_records("progress"), key=lambda unit: unit.name)

    def _is_unchanged(self, path: str, entry: FileEntry) -> bool:
        file = self.content / path
        is_regular = file.is_file() and not file.is_symlink()
        return (
            is_regular and file.stat().st_size == entry.size and sha256_file(file) == entry.sha256
        )

    def _record(self, name: str) -> Path:
        return self.root / "progress" / f"{_hashed(name)}.json"

    def _records(self, folder: str) -> list[Path]:
        return sorted((self.root / folder).glob("*.json"))

    def _read_records(self, folder: str) -> list[Unit]:
        units = (self._read_record(path) for path in self._records(folder))
        return [unit for unit in units if unit is not None]

    def _read_record(self, path: Path) -> Unit | None:
        """Return the unit of a record; None if the record is missing or invalid."""
        try:
            with open_regular(self.root, f"{path.parent.name}/{path.name}") as stream:
                data = read_at_most(stream, STATISTICS_BYTES.value)
            unit = typed_values.decode_json(data, Unit)
            for name in unit.files:
                check_path(name, str(path))
        except (
            FileNotFoundError,
            msgspec.MsgspecError,
            UnicodeDecodeError,
            RecursionError,
            ArtifactError,
        ):
            return None
        return unit

    def _fsync_and_hash(self, scratch: Path, name: str, rows: int | None) -> dict[str, FileEntry]:
        """Flush the files of a written unit to disk and return their sizes and hashes."""
        is_folder = scratch.is_dir() and not scratch.is_symlink()
        paths = list(iter_files(scratch)) if is_folder else [scratch]
        if not paths or not scratch.exists():
            raise ArtifactError(f"unit {name} was written without any file")
        files = {}
        for path in paths:
            if path.is_symlink() or not path.is_file():
                inner = "" if path == scratch else f"/{path.relative_to(scratch).as_posix()}"
                raise ArtifactError(f"{name}{inner} is not a regular file; links cannot be stored")
            fsync_file(path)
            inner = path.relative_to(scratch).as_posix()
            full = name if path == scratch else check_path(f"{name}/{inner}", "this stage")
            files[full] = FileEntry(
                size=path.stat().st_size,
                sha256=sha256_file(path),
                rows=rows if path == scratch or inner == "zarr.json" else None,
            )
        return files


def _hashed(name: str) -> str:
    """Return a short file name for a unit; its path may be too long for a file name."""
    return sha256_bytes(name.encode())[:32]
