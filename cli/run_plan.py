"""How commands run a stage or a plan, show it, and hand out what it made."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.output import built_line, built_object, print_json, progress_bar, say, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gsx.cli.options import Asked, Making
    from gsx.pipeline.plan import Step
    from gsx.storage.artifacts.publish import Built
    from gsx.storage.artifacts.store import Artifact, Store

    HandOut = Callable[[Artifact, Path, Store], Path]
    """Writes an artifact to a directory in another form, and returns where."""
    Made = list[tuple[str, Built, str]]
    """Steps that were run: name, what it made, where that is."""


def run_stage(
    name: str,
    options: Mapping[str, Any],
    given: Mapping[str, Artifact],
    making: Making,
    out: str | None = None,
    *,
    asked: Asked | None = None,
    announce: bool = True,
) -> Built | None:
    """Run one stage on given artifacts and return what it made; None when only shown.

    ``announce`` prints it as JSON where that is asked for.
    """
    from gsx.pipeline.plan import Step
    from gsx.pipeline.recipe import parse_config
    from gsx.pipeline.stage_order import stage_named

    stage = stage_named(name)
    config = parse_config(name, options, f"gsx {name}")
    results = execute((Step(stage, config, stage.inputs_of(config)),), given, making, out, asked)
    if making.dry_run:
        return None
    built, path = results[0][1:]
    if making.as_json and announce:
        print_json(built_object(built, path))
    return built


def execute(
    plan: tuple[Step, ...],
    given: Mapping[str, Artifact],
    making: Making,
    out: str | None = None,
    asked: Asked | None = None,
    hand_out: HandOut | None = None,
) -> Made:
    """Run a plan, or only show it, and return what each step made and where it is now.

    ``hand_out`` writes the last artifact to ``out``; without it the artifact is copied as it is.
    """
    from gsx.pipeline.runner import look_ahead, run_plan
    from gsx.storage.artifacts.store import Store

    store = Store.at(making.store)
    if making.dry_run:
        look_ahead(plan, given)
        _show_plan(plan, store, given, as_json=making.as_json)
        return []
    quiet = making.quiet or making.as_json
    speak = (lambda _: None) if making.quiet else say
    results = []
    for step, built in run_plan(
        plan,
        store,
        given=given,
        force=making.force,
        watch=lambda name: progress_bar(name, quiet=quiet),
        say=speak,
        hire=None if asked is None else asked.hire(speak),
    ):
        path = built.artifact.place.url
        if out is not None and step is plan[-1]:
            path = _copy_out(built.artifact, out, store, hand_out)
        results.append((step.name, built, path))
        if not quiet:
            click.echo(built_line(step.name, built))
            click.echo(f"          {path}")
    return results


def steps_of(made: Made) -> list[dict[str, Any]]:
    """Return steps as JSON has them."""
    return [{"step": name, **built_object(built, path)} for name, built, path in made]


def print_last(made: Made, making: Making) -> None:
    """Print, where JSON is asked for, what the last step made, and all steps."""
    if making.as_json and not making.dry_run:
        steps = steps_of(made)
        print_json({**{k: v for k, v in steps[-1].items() if k != "step"}, "steps": steps})


def _copy_out(artifact: Artifact, out: str, store: Store, hand_out: HandOut | None) -> str:
    """Copy an artifact to a directory or a URL, or hand it out there; return where it is now."""
    from gsx.storage.sharing.copy_out import copy_artifact, send_artifact

    if "://" not in out:
        if hand_out is None:
            return str(copy_artifact(artifact, Path(out)))
        return str(hand_out(artifact, Path(out), store))
    if hand_out is None:
        return send_artifact(artifact, out)
    with tempfile.TemporaryDirectory() as folder:
        made = hand_out(artifact, Path(folder) / "copy", store)
        return send_artifact(store.resolve(str(made)), out)


def _show_plan(
    plan: tuple[Step, ...], store: Store, given: Mapping[str, Artifact], *, as_json: bool
) -> None:
    from gsx.pipeline.plan import inspect_plan

    statuses = inspect_plan(plan, store, given)
    if as_json:
        steps = [dataclasses.asdict(status) for status in statuses]
        print_json({"store": store.place.url, "steps": steps})
        return
    rows = [(s.step, s.kind, s.key[:12] if s.key else None, s.state) for s in statuses]
    click.echo(table(rows, ("STEP", "KIND", "KEY", "STATE")))
