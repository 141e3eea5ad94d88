"""`gsx train`: train a classifier."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsx.errors import UsageError
from gsx.pipeline.commands.option_values import Options
from gsx.pipeline.commands.session import Session, StepResult
from gsx.stages.train.presets import options_for
from gsx.stages.train.result_file import scores_of, write_result
from gsx.stages.train.trackers import log_model
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.portable_copies import identity

AUGMENTING = ("generate", "augment")
"""Stages whose corpora have augmented graphs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """Where a run writes its result file, for `gsx table`."""

    folder: Path
    method: str
    command: str
    """How to repeat the run."""

    @classmethod
    def of(cls, folder: str | Path | None, method: str | None, command: str) -> ResultFile | None:
        """Return the result file for two options that belong together, or None."""
        if (folder is None) != (method is None):
            raise UsageError(
                "--results DIR and --method NAME belong together; give both or neither"
            )
        if folder is None or method is None:
            return None
        return cls(folder=Path(folder), method=method, command=command)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedModel:
    """A trained model, its scores, and the path of the result file."""

    step: StepResult
    scores: dict[str, Any]
    result: Path | None


def train(
    corpus: Artifact,
    options: Options,
    session: Session,
    *,
    preset: str = "default",
    result_file: ResultFile | None = None,
) -> TrainedModel | None:
    """Train a classifier and score it on held-out splits; return None for a dry run."""
    options = dict(options)
    if options["steps"] is not None and options["epochs"] is not None:
        raise UsageError("--steps and --epochs exclude each other; give one of them")
    if options.pop("seal"):
        if options["evaluate"] is not None:
            raise UsageError("--seal stores test predictions without scores. Remove --evaluate.")
        options["evaluate"] = "sealed"
    corpus_stage = identity(corpus).stage
    source = corpus_stage if corpus_stage in AUGMENTING else "prepare"
    stage_options = options_for(preset, options, Corpus(corpus).info)
    step = session.run_stage("train", {**stage_options, "source": source}, {source: corpus})
    if step is None:
        return None
    if step.built.reused and options.get("log"):  # it was not trained now
        log_model(step.built.artifact, options["log"])
    path = None
    if result_file is not None:
        path = write_result(
            result_file.folder, result_file.method, preset, step.built, result_file.command
        )
    return TrainedModel(step=step, scores=scores_of(step.built), result=path)
