"""Run a step in several processes that train together; the first makes the artifact.

The others do the same work for the sake of the gradients, in a draft that is thrown away, and then
find what the first one published.
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
from gsx.stages.stage import silent
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import Built, Identity, Outcome
from gsx.storage.artifacts.store import Artifact, Store

LAUNCHED = "TORCHELASTIC_RUN_ID"
"""Set by torch's launcher alone; other launchers set ranks too and know nothing of this."""
FOUND, MAKING = 0, 1
Produce = Callable[[Draft], Outcome]


def team_size() -> int:
    """Return how many processes torch's launcher started with this one; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1")) if LAUNCHED in os.environ else 1


@contextmanager
def joined() -> Iterator[int]:
    """Join the other processes, and give the number of this one."""
    from gsx.stages.nn.torch_ranks import joined as join

    with join() as rank:
        yield rank


def lead(build: Callable[[Produce], Built], produce: Produce) -> Built:
    """Build as the first process: call the others when there is something to make."""
    from gsx.stages.nn.torch_ranks import size, told

    called = []

    def together(draft: Draft) -> Outcome:
        called.append(told(MAKING))
        outcome = produce(draft)
        return (
            replace(outcome, device=f"{outcome.device}, {size()} processes")
            if outcome.device
            else outcome
        )

    built = build(together)
    if not called:
        told(FOUND)
    told(FOUND)  # it is published
    return built


def follow(step: Step, identity: Identity, inputs: Mapping[str, Artifact], store: Store) -> Built:
    """Help the first process, then find what it published."""
    from gsx.stages.nn.torch_ranks import told

    if told(FOUND) == MAKING and step.stage.run is not None:
        with tempfile.TemporaryDirectory() as folder:
            draft = Draft(Path(folder) / "draft")
            draft.prepare(identity.source)
            step.stage.run(step.config, inputs, draft, silent)
    told(FOUND)
    artifact = store.find(identity.kind, identity.key)
    if artifact is None:
        raise StageError(f"{step.name} was not published by the first process")
    return Built(artifact, reused=True)
