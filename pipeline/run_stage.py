"""Call the `run` function of a stage."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gsx.stages.stage import Progress, Stage
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact


def run_stage(
    stage: Stage,
    config: Any,  # noqa: ANN401
    inputs: Mapping[str, Artifact],
    draft: Draft,
    progress: Progress,
) -> StageResult:
    """Write the artifact of a stage into a draft, with one torch thread if it is `one_thread`."""
    if stage.run is None:
        raise TypeError(f"stage {stage.name} has no `run` function")
    with _threads(stage):
        return stage.run(config, inputs, draft, progress)


def _threads(stage: Stage) -> AbstractContextManager[None]:
    """Return a context with the number of torch threads of a stage; torch is imported on demand."""
    if not stage.one_thread:
        return nullcontext()
    from gsx.stages.nn.training_loop import one_thread

    return one_thread()
