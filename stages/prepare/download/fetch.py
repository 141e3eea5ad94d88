"""Fetch the raw files of a dataset from where they are published."""

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
class Fetched:
    """One raw file."""

    path: Path
    size: int
    reused: bool
    """Whether it was there before."""


def fetch_dataset(
    name: str, card: DatasetMetadata, folder: Path | None, progress: Callable[[int, int], None]
) -> list[Fetched]:
    """Bring the raw files of a dataset that are not there into ``folder``.

    ``progress`` is told the bytes that are there and those expected.
    """
    if not card.raw:
        raise UsageError(f"{name} is built in and needs no files: `gsx prepare {name}`.")
    wanted = remote_files(card)
    if wanted is None:
        first = card.raw[0]
        raise UsageError(
            f"{name} cannot be fetched: {' or '.join(first.paths)} is {first.what}, which no "
            "address serves as it is. Get it and name its folder with `--raw DIR`."
        )
    if folder is None:
        raise UsageError(
            "no folder of raw files is named. Say where to put them: `--raw DIR` or GSX_RAW_DATA."
        )
    there = {path: needed.find(folder) for path, needed in zip(wanted, card.raw, strict=True)}
    total = sum(remote.size for path, remote in wanted.items() if there[path] is None)
    found, done = [], 0
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / _LOCK, timeout=0):
            for path, remote in wanted.items():
                old = there[path]
                target = folder / path if old is None else old[1]
                if old is None:
                    download(remote, target, partial(_tell, progress, done, total))
                    done += remote.size
                found.append(Fetched(target, target.stat().st_size, old is not None))
    except Timeout as error:
        raise UsageError(
            f"another `gsx fetch` is filling {folder}. Wait until it is done, then say it again."
        ) from error
    return found


def _tell(progress: Callable[[int, int], None], before: int, total: int, size: int) -> None:
    progress(before + size, total)
