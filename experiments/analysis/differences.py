"""Differences of methods to a baseline, with intervals.

``python -m experiments.analysis.differences SUITE BASELINE`` compares every method of
``results/SUITE`` with the baseline on every dataset, paired by seed, by a hierarchical bootstrap
over seeds and test graphs. It needs the models in the store (``GSX_STORE``), so it runs where the
suite ran, and stores its numbers in ``results/differences/SUITE.json``. Tables and forest plots are
drawn from that file.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.suite import RESULTS
from gsx.storage.artifacts.store import Artifact, Store

FOLDER = RESULTS / "differences"
SPLITS = ("ood_test", "id_test")
POINTS = {"mcc": 100.0}
"""Points per unit of a metric; 1 for percentages."""
DIGITS = 4
Resolve = Callable[[str, str], Artifact]
"""From a key and a kind to an artifact."""


def main(suite: str, baseline: str) -> None:
    """Compare all methods of a suite with the baseline and write the file of the suite."""
    from gsx.stages.nn.training_loop import one_thread

    with one_thread():
        document = differences(RESULTS / suite, baseline, Store.at())
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{suite}.json"
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"written: {path}")


def differences(folder: Path, baseline: str, store: Store) -> dict[str, Any]:
    """Return the differences of every method, dataset and split of a folder to the baseline."""
    from gsx.stages.train.paired_comparison import compare_methods
    from gsx.stages.train.results_table import result_files

    def resolve(key: str, kind: str) -> Artifact:
        return store.resolve(key, kind=kind)

    runs = [document for _, document in result_files(folder)[0]]
    methods = sorted({run["method"] for run in runs} - {baseline})
    rows: list[dict[str, Any]] = []
    for method in methods:
        for split in SPLITS:
            compared = compare_methods(folder, method, baseline, split, resolve)
            rows += [
                {"method": method, "split": split, **_rounded(asdict(row))} for row in compared
            ]
    return {
        "command": f"python -m experiments.analysis.differences {folder.name} {baseline}",
        "baseline": baseline,
        "differences": rows,
        "recommended": _recommended(runs, resolve),
    }


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return rounded values; the scores of method and baseline get names of their own."""
    names = {"method": "score", "baseline": "baseline_score"}
    return {
        names.get(name, name): round(value, DIGITS) if isinstance(value, float) else value
        for name, value in row.items()
    }


def _recommended(runs: Iterable[Mapping[str, Any]], resolve: Resolve) -> dict[str, dict[str, int]]:
    """Return how often each recipe was recommended, by dataset; runs of the method `auto`."""
    counts: dict[str, Counter[str]] = {}
    for run in runs:
        if run["method"] == "auto":
            artifact = resolve(run["corpus_key"], "corpus")
            counts.setdefault(run["dataset"], Counter())[_recipe_of(artifact, resolve)] += 1
    return {dataset: dict(count.most_common()) for dataset, count in sorted(counts.items())}


def _recipe_of(artifact: Artifact, resolve: Resolve) -> str:
    """Return the recommended recipe that a corpus was built with; `none` for a source corpus."""
    for parent in artifact.manifest.parents:
        if parent.kind == "recommendation":
            evidence = resolve(parent.key, parent.kind).location.read_bytes(
                "evidence.json", limit=1 << 24
            )
            return str(json.loads(evidence)["choice"])
    return "none"


def table(suite: str) -> str:
    """Return the Markdown table of a suite: one row per dataset and method."""
    document = json.loads((FOLDER / f"{suite}.json").read_text(encoding="utf-8"))
    rows = {(r["dataset"], r["method"], r["split"]): r for r in document["differences"]}
    lines = [
        f"| dataset | method | seeds | {document['baseline']}, OOD | method, OOD | difference, OOD "
        "(95 %) | difference, ID (95 %) |",
        "|---|---|---|---|---|---|---|",
    ]
    for (dataset, method, split), row in sorted(rows.items()):
        if split != "ood_test":
            continue
        scale = POINTS.get(row["metric"], 1.0)
        inside = rows.get((dataset, method, "id_test"))
        lines.append(
            f"| {dataset} | {method} | {row['seeds']} | {row['baseline_score'] * scale:.1f} "
            f"| {row['score'] * scale:.1f} | {_interval(row, scale)} "
            f"| {_interval(inside, scale) if inside else 'n/a'} |"
        )
    choices = document["recommended"]
    if choices:
        lines += ["", "Recommended (`auto`), number of seeds:", ""]
        lines += [
            f"- {dataset}: " + ", ".join(f"{name} {count}" for name, count in counts.items())
            for dataset, counts in choices.items()
        ]
    return "\n".join(lines)


def _interval(row: Mapping[str, Any], scale: float) -> str:
    low, high = (row[name] * scale for name in ("low", "high"))
    return f"{row['difference'] * scale:+.1f} ({low:+.1f} to {high:+.1f})"


if __name__ == "__main__":
    main(*sys.argv[1:])
