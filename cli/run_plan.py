"""Run a stage or a plan for a command: print progress and results, copy the last artifact out."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsx.cli.output import (
    artifact_json,
    artifact_line,
    echo,
    format_table,
    notify,
    print_json,
    progress_bar,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gsx.cli.options import RunOptions
    from gsx.pipeline.distributed.cluster_options import ClusterOptions
    from gsx.pipeline.plan import Step
    from gsx.storage.artifacts.publish import BuildResult
    from gsx.storage.artifacts.store import Artifact, Store

    WriteCopy = Callable[[Artifact, Path, Store], Path]
    """Writes an artifact to a directory in another layout, and returns the directory."""
    StepResults = list[tuple[str, BuildResult, str]]
    """Name, result and path of every step."""


def run_single_stage(
    name: str,
    options: Mapping[str, Any],
    artifacts: Mapping[str, Artifact],
    run_options: RunOptions,
    out: str | None = None,
    *,
    cluster: ClusterOptions | None = None,
    print_result: bool = True,
) -> BuildResult | None:
    """Run one stage on artifacts and return the result; None for a dry run.

    ``print_result`` prints the result as JSON if `--json` is given.
    """
    from gsx.pipeline.plan import Step
    from gsx.pipeline.recipe import parse_config
    from gsx.pipeline.stage_order import stage_named

    stage = stage_named(name)
    config = parse_config(name, options, f"gsx {name}")
    plan = (Step(stage, config, stage.inputs_of(config)),)
    results = execute_plan(plan, artifacts, run_options, out, cluster)
    if run_options.dry_run:
        return None
    built, path = results[0][1:]
    if run_options.as_json and print_result:
        print_json(artifact_json(built, path))
    return built


def execute_plan(
    plan: tuple[Step, ...],
    artifacts: Mapping[str, Artifact],
    run_options: RunOptions,
    out: str | None = None,
    cluster: ClusterOptions | None = None,
    write_copy: WriteCopy | None = None,
) -> StepResults:
    """Run a plan and return the results of its steps; a dry run only prints the plan.

    The last artifact is also written to ``out``: by ``write_copy``, or as an exact copy.
    """
    from gsx.pipeline.runner import run_plan, run_preflight_checks
    from gsx.pipeline.tagging import check_new_tag
    from gsx.storage.artifacts.store import Store

    store = Store.at(run_options.store)
    if run_options.tag is not None:
        check_new_tag(run_options.tag)
    if run_options.dry_run:
        run_preflight_checks(plan, artifacts)
        _print_plan(plan, store, artifacts, as_json=run_options.as_json)
        return []
    quiet = run_options.quiet or run_options.as_json
    notify_unless_quiet = (lambda _: None) if run_options.quiet else notify
    results = []
    for step, built in run_plan(
        plan,
        store,
        artifacts=artifacts,
        force=run_options.force,
        open_progress=lambda name: progress_bar(name, quiet=quiet),
        notify=notify_unless_quiet,
        open_executor=None if cluster is None else cluster.executor_factory(notify_unless_quiet),
    ):
        path = built.artifact.location.url
        if out is not None and step is plan[-1]:
            path = _copy_out(built.artifact, out, store, write_copy)
        results.append((step.name, built, path))
        if not quiet:
            echo(artifact_line(step.name, built), f"          {path}")
    _tag_result(results, store, run_options)
    return results


def _tag_result(results: StepResults, store: Store, run_options: RunOptions) -> None:
    """Give the last artifact the tag of `--tag`."""
    from gsx.pipeline.tagging import tag_artifact

    if run_options.tag is None or not results:
        return
    previous = tag_artifact(store, results[-1][1].artifact, run_options.tag, replace=True)
    if previous is not None and not run_options.quiet:
        notify(f"the tag `{run_options.tag}` was moved from {previous.text}")


def reuse_artifact(
    name: str,
    artifact: Artifact,
    run_options: RunOptions,
    out: str | None,
    write_copy: WriteCopy | None,
) -> StepResults:
    """Return an existing artifact as the result of a step, and copy it to ``out``."""
    from gsx.storage.artifacts.publish import BuildResult
    from gsx.storage.artifacts.store import Store

    built = BuildResult(artifact, reused=True)
    store, path = Store.at(run_options.store), artifact.location.url
    if out is not None:
        path = _copy_out(artifact, out, store, write_copy)
    if not (run_options.quiet or run_options.as_json):
        echo(artifact_line(name, built), f"          {path}")
    results = [(name, built, path)]
    _tag_result(results, store, run_options)
    return results


def steps_json(results: StepResults) -> list[dict[str, Any]]:
    """Return the results of steps as JSON objects."""
    return [{"step": name, **artifact_json(built, path)} for name, built, path in results]


def print_last_step(results: StepResults, run_options: RunOptions) -> None:
    """Print the result of the last step, and of all steps, if `--json` is given."""
    if run_options.as_json and not run_options.dry_run:
        steps = steps_json(results)
        last = {name: value for name, value in steps[-1].items() if name != "step"}
        print_json({**last, "steps": steps})


def _copy_out(artifact: Artifact, out: str, store: Store, write_copy: WriteCopy | None) -> str:
    """Write a copy of an artifact to a directory or a URL and return its address."""
    from gsx.storage.sharing.copy_out import copy_artifact, upload_copy

    if "://" not in out:
        if write_copy is None:
            return str(copy_artifact(artifact, Path(out)))
        return str(write_copy(artifact, Path(out), store))
    if write_copy is None:
        return upload_copy(artifact, out)
    with tempfile.TemporaryDirectory() as folder:
        copied = write_copy(artifact, Path(folder) / "copy", store)
        return upload_copy(store.resolve(str(copied)), out)


def _print_plan(
    plan: tuple[Step, ...], store: Store, artifacts: Mapping[str, Artifact], *, as_json: bool
) -> None:
    from gsx.pipeline.plan import inspect_plan

    statuses = inspect_plan(plan, store, artifacts)
    if as_json:
        steps = [dataclasses.asdict(status) for status in statuses]
        print_json({"store": store.location.url, "steps": steps})
        return
    rows = [(s.step, s.kind, s.key[:12] if s.key else None, s.state) for s in statuses]
    echo(*format_table(rows, ("STEP", "KIND", "KEY", "STATE")))
