"""The plan: which steps a recipe needs, in order, and what of it is already in a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gsx.pipeline.code_digest import code_digest
from gsx.pipeline.recipe import Recipe
from gsx.pipeline.stage_order import STAGES
from gsx.stages.stage import Stage
from gsx.storage.artifacts.digest import sha256_file
from gsx.storage.artifacts.manifest import Parent
from gsx.storage.artifacts.publish import Identity
from gsx.storage.artifacts.store import Artifact, Store


@dataclass(frozen=True, slots=True)
class Step:
    """One stage with its resolved config and the steps whose artifacts it reads."""

    stage: Stage
    config: Any
    inputs: Mapping[str, str]
    """Role → name of the step that makes the artifact."""

    @property
    def name(self) -> str:
        """The stage's name; a recipe runs each stage once."""
        return self.stage.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What a store already holds of a step."""

    step: str
    kind: str
    state: str
    """``done``, ``missing``, or ``waiting`` while an input is missing."""
    key: str | None
    """None while an input is missing, because keys are made from the inputs' content."""


def make_plan(recipe: Recipe) -> tuple[Step, ...]:
    """Return the steps of a recipe in the order in which they run; reads and writes nothing."""
    return tuple(
        Step(stage, config, stage.inputs_of(config))
        for stage in STAGES
        if (config := recipe.configs.get(stage.name)) is not None
    )


def identity_of(step: Step, inputs: Mapping[str, Artifact]) -> Identity:
    """Return what decides the artifact of a step, given the artifacts it reads by role."""
    config = msgspec.to_builtins(step.config)
    for name in step.stage.places:
        config.pop(name, None)
    for name, value in step.stage.later.items():
        if config[name] == value:
            config.pop(name)
    return Identity(
        kind=step.stage.kind,
        stage=step.stage.name,
        stage_version=step.stage.version,
        config=config,
        parents=tuple(
            Parent(
                role=role,
                kind=artifact.manifest.kind,
                key=artifact.key,
                digest=artifact.manifest.digest,
            )
            for role, artifact in sorted(inputs.items())
        ),
        raw={
            name: sha256_file(path)
            for name, path in sorted(step.stage.raw_files(step.config).items())
        },
        seeds=step.stage.seeds(step.config),
        source=code_digest([step.stage.module]),
    )


def inspect_plan(
    plan: tuple[Step, ...], store: Store, given: Mapping[str, Artifact]
) -> list[Status]:
    """Say for every step whether the store holds its artifact; ``given`` stand in for steps."""
    found = dict(given)
    statuses = []
    for step in plan:
        if not all(name in found for name in step.inputs.values()):
            statuses.append(Status(step=step.name, kind=step.stage.kind, state="waiting", key=None))
            continue
        inputs = {role: found[name] for role, name in step.inputs.items()}
        key = identity_of(step, inputs).key
        artifact = store.find(step.stage.kind, key)
        if artifact is not None:
            found[step.name] = artifact
        state = "missing" if artifact is None else "done"
        statuses.append(Status(step=step.name, kind=step.stage.kind, state=state, key=key))
    return statuses
