"""Run a step in several processes that train together (``torchrun``); rank 0 writes the artifact.

The other ranks do the same computation to contribute gradients, in a draft that is discarded. Then
they find the artifact that rank 0 published.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gsx.errors import StageError
from gsx.pipeline.plan import Step
from gsx.pipeline.run_stage import run_stage
from gsx.stages.stage import ignore_progress
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import BuildResult, Identity, StageResult
from gsx.storage.artifacts.store import Artifact, Store

LAUNCHER_VARIABLE = "TORCHELASTIC_RUN_ID"
"""Set by torchrun only. Other launchers set ranks too, but not for this purpose."""
REUSED, BUILDING = 0, 1
"""Messages from rank 0 about the artifact of a step."""
Produce = Callable[[Draft], StageResult]


def num_launched_processes() -> int:
    """Return the number of processes that torchrun started; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1")) if LAUNCHER_VARIABLE in os.environ else 1


@contextmanager
def join_process_group() -> Iterator[int]:
    """Join the process group of torchrun and yield the rank of this process."""
    from gsx.stages.nn.torch_ranks import process_group

    with process_group() as rank:
        yield rank


def build_on_rank_zero(build: Callable[[Produce], BuildResult], produce: Produce) -> BuildResult:
    """Build an artifact as rank 0; start the other ranks if there is something to compute."""
    from gsx.stages.nn.torch_ranks import broadcast_int, world_size

    started = []

    def produce_together(draft: Draft) -> StageResult:
        started.append(broadcast_int(BUILDING))
        outcome = produce(draft)
        return (
            replace(outcome, device=f"{outcome.device}, {world_size()} processes")
            if outcome.device
            else outcome
        )

    built = build(produce_together)
    if not started:
        broadcast_int(REUSED)
    broadcast_int(REUSED)  # the artifact is published
    return built


def build_on_other_rank(
    step: Step, identity: Identity, inputs: Mapping[str, Artifact], store: Store
) -> BuildResult:
    """Compute along with rank 0, then return the artifact that it published."""
    from gsx.stages.nn.torch_ranks import broadcast_int

    if broadcast_int(REUSED) == BUILDING and step.stage.run is not None:
        with tempfile.TemporaryDirectory() as folder:
            draft = Draft(Path(folder) / "draft")
            draft.prepare(identity.source)
            run_stage(step.stage, step.config, inputs, draft, ignore_progress)
    broadcast_int(REUSED)
    artifact = store.find(identity.kind, identity.key)
    if artifact is None:
        raise StageError(
            f"{step.name}: rank 0 has not published the artifact. Make sure that all processes "
            "use the same store."
        )
    return BuildResult(artifact, reused=True)
