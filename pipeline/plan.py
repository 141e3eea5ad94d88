"""Plans: the ordered steps of a recipe, and which of their artifacts a store already has."""

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
from gsx.storage.artifacts.manifest import Manifest, Parent
from gsx.storage.artifacts.publish import Identity
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.portable_copies import identity


@dataclass(frozen=True, slots=True)
class Step:
    """One stage with its resolved config and the steps whose artifacts it reads."""

    stage: Stage
    config: Any
    inputs: Mapping[str, str]
    """Role → name of the step that writes the artifact."""

    @property
    def name(self) -> str:
        """Name of the stage; a recipe runs each stage once."""
        return self.stage.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Whether a store has the artifact of a step."""

    step: str
    kind: str
    state: str
    """``done``, ``missing``, or ``waiting`` while an input is missing."""
    key: str | None
    """None while an input is missing, because a key depends on the content of the inputs."""


def make_plan(recipe: Recipe) -> tuple[Step, ...]:
    """Return the steps of a recipe in the order of execution. Reads and writes no files."""
    return tuple(
        Step(stage, config, stage.inputs_of(config))
        for stage in STAGES
        if (config := recipe.configs.get(stage.name)) is not None
    )


def identity_of(step: Step, inputs: Mapping[str, Artifact]) -> Identity:
    """Return everything that determines the artifact of a step; ``inputs`` are keyed by role."""
    config = msgspec.to_builtins(step.config)
    for name in step.stage.local_options:
        config.pop(name, None)
    for name, value in step.stage.added_options.items():
        if name in config and config[name] == value:
            config.pop(name)
    return Identity(
        kind=step.stage.kind,
        stage=step.stage.name,
        stage_version=step.stage.version,
        config=config,
        parents=tuple(
            Parent(role=role, kind=manifest.kind, key=manifest.key, digest=manifest.digest)
            for role, manifest in sorted(_identities(inputs).items())
        ),
        raw={
            name: sha256_file(path)
            for name, path in sorted(step.stage.raw_files(step.config).items())
        },
        seeds=step.stage.seeds(step.config),
        source=code_digest([step.stage.module]),
    )


def _identities(inputs: Mapping[str, Artifact]) -> dict[str, Manifest]:
    """Return the manifests of inputs by role; a portable copy counts as the corpus it holds."""
    return {role: identity(artifact) for role, artifact in inputs.items()}


def inspect_plan(
    plan: tuple[Step, ...], store: Store, artifacts: Mapping[str, Artifact]
) -> list[Status]:
    """Return the status of every step; ``artifacts`` replace steps that the plan does not have."""
    available = dict(artifacts)
    statuses = []
    for step in plan:
        if not all(name in available for name in step.inputs.values()):
            statuses.append(Status(step=step.name, kind=step.stage.kind, state="waiting", key=None))
            continue
        inputs = {role: available[name] for role, name in step.inputs.items()}
        key = identity_of(step, inputs).key
        artifact = store.find(step.stage.kind, key)
        if artifact is not None:
            available[step.name] = artifact
        state = "missing" if artifact is None else "done"
        statuses.append(Status(step=step.name, kind=step.stage.kind, state=state, key=key))
    return statuses
