"""The run record: how an artifact was made. It lies beside the manifest, outside key and digest."""

from __future__ import annotations

import contextlib
import functools
import platform
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata

import msgspec

PACKAGES = ("gsx", "numpy", "pyarrow", "zarr", "torch", "torch-geometric", "dask", "rdkit")


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the run that made an artifact; another run of the same key may differ here."""

    source: str = ""
    """SHA-256 of the stage's code."""
    seconds: float
    peak_memory_mib: float
    platform: str
    device: str = ""
    """Where networks computed, such as ``cpu`` or ``cuda``; empty where none did."""
    python: str
    versions: dict[str, str]


@dataclass(slots=True)
class Stopwatch:
    """Wall time of a block."""

    source: str
    started: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0

    def record(self, device: str = "") -> RunRecord:
        """Return the record of the block that just ended."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return RunRecord(
            source=self.source,
            seconds=round(self.seconds, 3),
            peak_memory_mib=round(peak / (1024 if sys.platform != "darwin" else 1 << 20), 1),
            platform=f"{platform.system()} {platform.machine()}",
            device=device,
            python=platform.python_version(),
            versions=versions(),
        )


@contextlib.contextmanager
def stopwatch(source: str) -> Iterator[Stopwatch]:
    """Measure the wall time of a block."""
    watch = Stopwatch(source)
    yield watch
    watch.seconds = time.perf_counter() - watch.started


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that matter, as far as they are here."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
