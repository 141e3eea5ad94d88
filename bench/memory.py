"""Measure how much memory streaming takes, for a corpus and one ten times as large.

Run: ``python bench/memory.py``. Each peak is that of a fresh process that opens a corpus and reads
one epoch of PyG batches from its Parquet shards, or from its Zarr shards. The bar leaves a quarter
for allocators, which take some ten shards to settle.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import corpora

from gsx.storage.corpus import open_corpus

COMMAND = "python bench/memory.py"
RESULT = Path(__file__).parent / "results" / "memory.json"
GRAPHS, TIMES, BATCH, BAR = 100_000, 10, 256, 1.25
PACKAGES = ("numpy", "pyarrow", "zarr", "torch", "torch-geometric")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=GRAPHS, help="graphs of the smaller corpus")
    parser.add_argument("--stream", nargs=2, metavar=("FORMAT", "CORPUS"))
    options = parser.parse_args()
    if options.stream:
        print(json.dumps(stream(*options.stream)))
        return
    found: dict[str, dict] = {"parquet": {}, "zarr": {}}
    for graphs in (options.graphs, options.graphs * TIMES):
        for form, peaks in found.items():
            with corpora.workplace() as folder:  # one format at a time: the large corpus is 2 GB
                corpus = corpora.publish(folder, graphs, (form,))
                peaks[graphs] = {
                    "corpus_mib": round(corpus.artifact.manifest.size / 2**20),
                    **stream_afresh(form, corpus.artifact.place.root),
                }
    result = {
        "command": COMMAND,
        "shard_graphs": corpora.SHARD_GRAPHS,
        "batch_size": BATCH,
        "peaks": found,
        "ratios": {form: growth(peaks) for form, peaks in found.items()},
        "bar": BAR,
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
    }
    show(result)
    if options.graphs == GRAPHS:
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
    if max(result["ratios"].values()) > BAR:
        raise SystemExit(f"memory grows with the corpus by more than {BAR}")


def stream_afresh(form: str, corpus: str) -> dict[str, int]:
    command = [sys.executable, __file__, "--stream", form, corpus]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def stream(form: str, corpus: str) -> dict[str, int]:
    """Read one epoch and return the peak of memory in MiB, before it and in all."""
    import gsx.storage.loader  # noqa: F401  so that what imports take is counted before

    before = peak_mib()
    graphs = 0
    for batch in open_corpus(corpus, format=form).loader(BATCH, cache="never"):
        graphs += batch.num_graphs
    return {"graphs": graphs, "imports_mib": before, "peak_mib": peak_mib()}


def peak_mib() -> int:
    """Return the peak of resident memory, mapped files included.

    Not from ``getrusage``: a child's figure there starts with the peak of its parent.
    """
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


def peaks_afresh(script: str, store: Path, counts: tuple[int, ...] = (10_000, 1_000_000)) -> dict:
    """Let ``script --peak STORE COUNT`` print its peak in fresh processes, and compare them."""
    peaks = {}
    for count in counts:
        command = [sys.executable, script, "--peak", str(store), str(count)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        peaks[count] = json.loads(done.stdout)
    return {"peaks": peaks, "ratio": growth(peaks)}


def growth(peaks: dict[int, dict]) -> float:
    small, large = (peaks[graphs]["peak_mib"] for graphs in sorted(peaks))
    return round(large / small, 3)


def show(result: dict) -> None:
    print(f"{'streaming, MiB':<16}{'graphs':>10}{'corpus':>8}{'imports':>9}{'peak':>7}")
    for form, peaks in result["peaks"].items():
        for graphs, peak in peaks.items():
            print(
                f"{form:<16}{graphs:>10,}{peak['corpus_mib']:>8,}"
                f"{peak['imports_mib']:>9,}{peak['peak_mib']:>7,}"
            )
    for form, ratio in result["ratios"].items():
        verdict = "pass" if ratio <= BAR else "FAIL"
        print(f"{form}: {TIMES} times the graphs, {ratio:.2f} times the memory ({BAR}: {verdict})")


if __name__ == "__main__":
    main()
