"""Result files of training runs, which `gsx table` and `gsx compare` read."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gsx
from gsx.escape import folder_name
from gsx.stages.train.results_table import result_json
from gsx.storage.artifacts.atomic_files import atomic_write, translate_os_errors
from gsx.storage.artifacts.publish import BuildResult
from gsx.storage.artifacts.sidecars import read_run_record
from gsx.storage.corpora.summary import model_scores, selected_rule, summary_name


def scores_of(built: BuildResult) -> dict[str, Any]:
    """Return the scores of a trained model, with the rule that selects its epoch."""
    quality = model_scores(built.artifact.manifest)
    return {**quality, "selected": selected_rule(quality)}


def write_result(folder: Path, method: str, preset: str, built: BuildResult, command: str) -> Path:
    """Write the result file of a training run and return its path."""
    manifest = built.artifact.manifest
    scores = scores_of(built)
    rule = scores["selected"]
    selected = scores["selection"].get(rule, {})
    document = {
        "dataset": summary_name(manifest),
        "method": method,
        "seed": manifest.config["seed"],
        "metric": scores["metric"],
        "ood_val": selected.get("ood_val"),
        "ood_test": selected.get("ood_test"),
        "id_test": selected.get("id_test"),
        "selection": rule,
        "preset": preset,
        "epochs": _epochs(manifest.config, scores),
        "corpus_key": manifest.parents[0].key,
        "model_key": manifest.key,
        "command": command,
        "commit": _git_commit(),
        "seconds": _training_seconds(built),
        "scores": scores["selection"],
        "curves": _curves(built),
        "config": manifest.config,
    }
    if manifest.config.get("evaluate") == "sealed":
        document["sealed"] = True
    # The name of a corpus may come from an unknown author; it must stay inside of the folder.
    key = manifest.parents[0].key
    name = folder_name(str(document["dataset"]), f"corpus-{key[:12]}")
    path = folder / name / f"{method}-{document['seed']}.json"
    consequence = "The trained model is kept."
    with translate_os_errors(str(path), consequence=consequence, option="--results DIR"):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, result_json(document))
    return path


def _curves(built: BuildResult) -> dict[str, list[float | None]]:
    """Return the score of every split after each epoch; sealed splits have none."""
    from gsx.stages.train.stage import CURVES, json_files

    epochs = json_files()[CURVES].read(built.artifact.location, CURVES)
    others = ("epoch", "loss", "learning_rate")
    return {split: [row[split] for row in epochs] for split in epochs[0] if split not in others}


def _training_seconds(built: BuildResult) -> float | None:
    """Return the duration of training, also if an earlier run has trained the model."""
    if not built.reused:
        return round(built.seconds, 1)
    record = read_run_record(built.artifact.location)
    return None if record is None else round(record.seconds, 1)


def _git_commit() -> str | None:
    """Return the commit of the checkout that gsx runs from; None if it is installed."""
    folder = Path(gsx.__file__).resolve().parent
    try:
        completed = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return completed.stdout.strip() or None if completed.returncode == 0 else None


def _epochs(config: Mapping[str, Any], scores: dict[str, Any]) -> int | None:
    """Return the epochs of a training run; None for a linear model."""
    if "chosen" in scores:
        return None
    if config.get("steps") is None:
        return int(config["epochs"])
    return int(scores["selection"]["last"]["epoch"]) + 1
