"""Peak memory of processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lib.harness import rerun


def peak_mib() -> int:
    """Return the peak resident memory of this process in MiB, mapped files included.

    Not from ``getrusage``: on Linux a child starts with the peak of its parent there.
    """
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


def peaks_in_new_processes(
    script: str, store: Path, counts: tuple[int, ...] = (10_000, 1_000_000)
) -> dict[str, Any]:
    """Run ``script --peak STORE COUNT`` per count; return what each prints, and the growth."""
    peaks = {count: rerun(script, "--peak", store, count) for count in counts}
    return {"peaks": peaks, "ratio": growth(peaks)}


def growth(peaks: dict[int, dict[str, Any]]) -> float:
    """Return the peak of the larger of two runs divided by the peak of the smaller one."""
    small, large = (peaks[count]["peak_mib"] for count in sorted(peaks))
    return round(large / small, 3)
