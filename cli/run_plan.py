"""Sessions of commands: where they print plans, progress and results."""

from __future__ import annotations

import dataclasses
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
    from collections.abc import Sequence

    from gsx.cli.options import RunOptions
    from gsx.pipeline.commands.session import Session, StepResult
    from gsx.pipeline.distributed.cluster_options import ClusterOptions
    from gsx.pipeline.plan import Status
    from gsx.storage.artifacts.store import Store


def open_session(run_options: RunOptions, cluster: ClusterOptions | None = None) -> Session:
    """Return the session of a command; it prints every step unless an option prevents it."""
    from gsx.pipeline.commands.session import Session
    from gsx.pipeline.distributed.cluster_options import ClusterOptions
    from gsx.storage.artifacts.store import Store

    quiet = run_options.quiet or run_options.as_json

    def print_plan(store: Store, statuses: Sequence[Status]) -> None:
        _print_plan(store, statuses, as_json=run_options.as_json)

    return Session(
        store=Store.at(run_options.store),
        force=run_options.force,
        tag=run_options.tag,
        cluster=cluster or ClusterOptions(),
        notify=(lambda _: None) if run_options.quiet else notify,
        open_progress=lambda name: progress_bar(name, quiet=quiet),
        on_step=(lambda _: None) if quiet else _print_step,
        on_plan=print_plan if run_options.dry_run else None,
    )


def print_result(step: StepResult | None, run_options: RunOptions) -> None:
    """Print the result of a single step if `--json` is given."""
    if step is not None and run_options.as_json:
        print_json(artifact_json(step.built, step.path))


def print_last_step(results: Sequence[StepResult], run_options: RunOptions) -> None:
    """Print the result of the last step, and of all steps, if `--json` is given."""
    if run_options.as_json and not run_options.dry_run:
        steps = steps_json(results)
        last = {name: value for name, value in steps[-1].items() if name != "step"}
        print_json({**last, "steps": steps})


def steps_json(results: Sequence[StepResult]) -> list[dict[str, Any]]:
    """Return the results of steps as JSON objects."""
    return [{"step": name, **artifact_json(built, path)} for name, built, path in results]


def _print_step(step: StepResult) -> None:
    echo(artifact_line(step.name, step.built), f"          {step.path}")


def _print_plan(store: Store, statuses: Sequence[Status], *, as_json: bool) -> None:
    if as_json:
        steps = [dataclasses.asdict(status) for status in statuses]
        print_json({"store": store.location.url, "steps": steps})
        return
    rows = [(s.step, s.kind, s.key[:12] if s.key else None, s.state) for s in statuses]
    echo(*format_table(rows, ("STEP", "KIND", "KEY", "STATE")))
