"""The run record: time, memory and versions of the run that built an artifact.

``run.json`` is stored next to the manifest and is part of neither key nor digest.
"""

from __future__ import annotations

import contextlib
import functools
import platform
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import msgspec

PACKAGES = ("gsx", "numpy", "pyarrow", "zarr", "torch", "torch-geometric", "dask", "rdkit")


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The run that built an artifact; another run with the same key may differ here."""

    source: str = ""
    """SHA-256 of the stage's code."""
    seconds: float
    peak_memory_mib: float
    platform: str
    device: str = ""
    """Device of the networks, such as ``cpu`` or ``cuda``; empty if the stage has none."""
    python: str
    versions: dict[str, str]
    timings: dict[str, float] = {}
    """Seconds of named parts of the computation."""
    date: str = ""
    """End of the run, ISO 8601 in UTC; empty in records of older versions."""


@dataclass(slots=True)
class Stopwatch:
    """Wall time of a block."""

    source: str
    started: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0

    def record(self, device: str = "", timings: Mapping[str, float] | None = None) -> RunRecord:
        """Return the record of the block that just ended."""
        return RunRecord(
            source=self.source,
            seconds=round(self.seconds, 3),
            peak_memory_mib=round(peak_memory_mib(), 1),
            platform=f"{platform.system()} {platform.machine()}",
            device=device,
            python=platform.python_version(),
            versions=package_versions(),
            timings={name: round(value, 3) for name, value in (timings or {}).items()},
            date=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )


@contextlib.contextmanager
def measure_run(source: str) -> Iterator[Stopwatch]:
    """Measure the wall time of a block."""
    watch = Stopwatch(source)
    yield watch
    watch.seconds = time.perf_counter() - watch.started


def peak_memory_mib() -> float:
    """Return the peak resident memory of this process in MiB.

    On Linux this is ``VmHWM`` of ``/proc/self/status``. ``getrusage`` is used elsewhere only: on
    Linux ``ru_maxrss`` survives ``exec``, so a child starts with the memory of its parent.
    """
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 if sys.platform != "darwin" else 1 << 20)


@functools.cache
def package_versions() -> dict[str, str]:
    """Return the versions of the installed packages among ``PACKAGES``."""
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions
