"""Download the missing raw files of a dataset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from gsx.errors import UsageError
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
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / _LOCK, timeout=0):
            for path, remote in wanted.items():
                old = existing[path]
                target = folder / path if old is None else old[1]
                if old is None:
                    download(remote, target, partial(_report_progress, progress, done, total))
                    done += remote.size
                fetched.append(FetchedFile(target, target.stat().st_size, old is not None))
    except Timeout as error:
        raise UsageError(
            f"another `gsx fetch` is writing to {folder}. Wait for it to finish, then run the "
            "command again."
        ) from error
    return fetched


def _report_progress(
    progress: Callable[[int, int], None], before: int, total: int, size: int
) -> None:
    progress(before + size, total)
