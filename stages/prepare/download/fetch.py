"""Download the missing raw files of a dataset."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from gsx.errors import StoreError, UsageError
from gsx.stages.prepare.dataset import DatasetMetadata
from gsx.stages.prepare.download.catalog import remote_files
from gsx.stages.prepare.download.download import download

_LOCK = ".gsx-fetch.lock"


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A raw file on disk."""

    path: Path
    size: int
    reused: bool
    """Whether it existed before."""


def fetch_dataset(
    name: str, metadata: DatasetMetadata, folder: Path | None, progress: Callable[[int, int], None]
) -> list[FetchedFile]:
    """Download the missing raw files of a dataset into ``folder``.

    ``progress`` receives the downloaded and the expected number of bytes.
    """
    if not metadata.raw:
        raise UsageError(f"{name} is synthetic and needs no files. Run `gsx prepare {name}`.")
    wanted = remote_files(metadata)
    if wanted is None:
        first = metadata.raw[0]
        raise UsageError(
            f"{name}: no download for {' or '.join(first.paths)} ({first.what}). Get the file "
            "yourself and pass its directory with `--raw DIR`."
        )
    if folder is None:
        raise UsageError("no raw data directory is set. Pass `--raw DIR` or set GSX_RAW_DATA.")
    existing = {
        path: needed.find(folder) for path, needed in zip(wanted, metadata.raw, strict=True)
    }
    total = sum(remote.size for path, remote in wanted.items() if existing[path] is None)
    fetched, done = [], 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / _LOCK, timeout=0):
            for path, remote in wanted.items():
                old = existing[path]
                target = folder / path if old is None else old[1]
                if old is None:
                    with _no_empty_folders(target.parent, folder):
                        report = partial(_report_progress, progress, done, total)
                        download(remote, target, report)
                    done += remote.size
                fetched.append(FetchedFile(target, target.stat().st_size, old is not None))
    except Timeout as error:
        raise UsageError(
            f"another `gsx fetch` is writing to {folder}. Wait for it to finish, then run the "
            "command again."
        ) from error
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be written: {error.strerror or error}. Finished files are kept. "
            "Check its permissions, or pass another directory with `--raw DIR`."
        ) from error
    return fetched


@contextlib.contextmanager
def _no_empty_folders(folder: Path, root: Path) -> Iterator[None]:
    """Remove ``folder`` and its parents below ``root`` after an error, if they are empty."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            while folder != root and folder.is_relative_to(root):
                folder.rmdir()
                folder = folder.parent
        raise


def _report_progress(
    progress: Callable[[int, int], None], before: int, total: int, size: int
) -> None:
    progress(before + size, total)
