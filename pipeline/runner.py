"""Run a plan: every step whose artifact is missing, in order, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext

from gsx.errors import StageError
from gsx.pipeline.plan import Step, identity_of
from gsx.stages.stage import Progress, silent
from gsx.storage.publish import Built, build
from gsx.storage.store import Artifact, Store

Watch = Callable[[str], AbstractContextManager[Progress]]
"""Opens the display of one step's progress."""


def run_plan(
    plan: tuple[Step, ...],
    store: Store,
    *,
    given: Mapping[str, Artifact] | None = None,
    force: bool = False,
    watch: Watch = lambda _: nullcontext(silent),
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[Step, Built]]:
    """Run the steps in order and yield each with its artifact; what is there is not made again.

    ``given`` are artifacts that stand in for steps the plan does not have.
    """
    done = dict(given or {})
    for step in plan:
        missing = [name for name in step.inputs.values() if name not in done]
        if missing:
            raise StageError(f"{step.name} needs the artifact of {missing[0]}, which has not run")
        inputs = {role: done[name] for role, name in step.inputs.items()}
        built = run_step(step, inputs, store, force=force, watch=watch, say=say)
        done[step.name] = built.artifact
        yield step, built


def run_step(
    step: Step,
    inputs: Mapping[str, Artifact],
    store: Store,
    *,
    force: bool,
    watch: Watch,
    say: Callable[[str], None],
) -> Built:
    """Run one step, or find what it made before."""
    with watch(step.name) as progress:
        built = build(
            store,
            identity_of(step, inputs),
            lambda draft: step.stage.run(step.config, inputs, draft, progress),
            force=force,
            on_wait=say,
        )
    if built.note:
        say(built.note)
    for warning in built.artifact.manifest.warnings:
        say(f"{step.name}: {warning}")
    return built
