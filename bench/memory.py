"""Measure the memory of streaming a corpus, and one ten times as large: ``python bench/memory.py``.

Each peak is that of a new process that opens a corpus and reads one epoch of PyG batches from its
Parquet shards, or from its Zarr shards. The bar allows for a quarter more, because allocators take
about ten shards to reach their final size.
"""

from __future__ import annotations

import json

from lib import corpora, harness
from lib.memory import growth, peak_mib

from gsx.storage.corpora.corpus import open_corpus
from gsx.storage.corpora.corpus_writer import Format

NAME = "memory"
GRAPHS, FACTOR, BATCH, BAR = 100_000, 10, 256, 1.25


def main(arguments: list[str] | None = None) -> None:
    parser = harness.argument_parser(__doc__)
    parser.add_argument(
        "--graphs",
        type=int,
        default=GRAPHS,
        help="graphs of the smaller corpus; any other number than %(default)s is a dry run",
    )
    parser.add_argument("--stream", nargs=2, metavar=("FORMAT", "CORPUS"), help="internal")
    options = parser.parse_args(arguments)
    if options.stream:
        print(json.dumps(stream(*options.stream)))
        return
    peaks: dict[Format, dict[int, dict[str, int]]] = {"parquet": {}, "zarr": {}}
    for graphs in (options.graphs, options.graphs * FACTOR):
        for file_format, by_size in peaks.items():
            # One format at a time: the larger corpus has 2 GB.
            with corpora.temporary_directory() as folder:
                corpus = corpora.publish(folder, graphs, (file_format,))
                by_size[graphs] = {
                    "corpus_mib": round(corpus.artifact.manifest.size / 2**20),
                    **harness.rerun(
                        __file__, "--stream", file_format, corpus.artifact.location.root
                    ),
                }
    result: harness.Result = {
        "command": harness.command_line(NAME),
        "shard_graphs": corpora.SHARD_GRAPHS,
        "batch_size": BATCH,
        "peaks": peaks,
        "ratios": {file_format: growth(by_size) for file_format, by_size in peaks.items()},
        "bar": BAR,
        "versions": harness.versions("numpy", "pyarrow", "zarr", "torch", "torch-geometric"),
    }
    show(result)
    harness.write_result(NAME, result, dry_run=options.dry_run or options.graphs != GRAPHS)
    ratios = {f"growth with {form}": ratio for form, ratio in result["ratios"].items()}
    harness.require(harness.at_most(ratios, dict.fromkeys(ratios, BAR)))


def stream(file_format: Format, corpus: str) -> dict[str, int]:
    """Read one epoch; return the peak memory in MiB before it and in total."""
    import gsx.storage.corpora.loader  # noqa: F401  so that the memory of imports is counted before

    before = peak_mib()
    graphs = 0
    for batch in open_corpus(corpus, format=file_format).loader(BATCH, cache="never"):
        graphs += batch.num_graphs
    return {"graphs": graphs, "imports_mib": before, "peak_mib": peak_mib()}


def show(result: harness.Result) -> None:
    print(f"{'streaming, MiB':<16}{'graphs':>10}{'corpus':>8}{'imports':>9}{'peak':>7}")
    for file_format, by_size in result["peaks"].items():
        for graphs, peak in by_size.items():
            print(
                f"{file_format:<16}{graphs:>10,}{peak['corpus_mib']:>8,}"
                f"{peak['imports_mib']:>9,}{peak['peak_mib']:>7,}"
            )
    for file_format, ratio in result["ratios"].items():
        verdict = "pass" if ratio <= BAR else "FAIL"
        print(
            f"{file_format}: {FACTOR} times the graphs, {ratio:.2f} times the memory "
            f"(bar: {BAR}, {verdict})"
        )


if __name__ == "__main__":
    main()
