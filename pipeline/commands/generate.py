"""`gsx generate` and `gsx augment`: write augmented corpora."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gsx.errors import UsageError
from gsx.pipeline.commands.generate_plan import Source, make_augment_plan, make_generate_plan
from gsx.pipeline.commands.option_values import GENERATE_BUDGET, Options
from gsx.pipeline.commands.portable_copy import write_portable_copy
from gsx.pipeline.commands.recommend import read_evidence
from gsx.pipeline.commands.recommend_plan import (
    make_recommend_plan,
    make_recommended_plan,
    wants_recommendation,
)
from gsx.pipeline.commands.session import Session, StepResult
from gsx.pipeline.recommend.evidence import Evidence
from gsx.storage.artifacts.store import Artifact

OnChoice = Callable[[Evidence], None]
"""Receives the recommendation before its corpus is built."""


def generate(
    source: Source,
    options: Options,
    session: Session,
    out: str | Path | None = None,
    on_choice: OnChoice = lambda _: None,
) -> list[StepResult]:
    """Build an augmented corpus and what it needs; return all steps, none for a dry run.

    Without a recipe and without options that say how to make graphs, named recipes are compared
    and the recommended one is built.
    """
    if wants_recommendation(source, options):
        return _generate_recommended(source, options, session, out, on_choice)
    if options["budget"] is not None:
        raise UsageError("--budget has no effect without `--recipe auto`; leave it out")
    plan, artifacts = make_generate_plan(source, options, session.store)
    return session.run_plan(plan, artifacts, out, write_portable_copy)


def _generate_recommended(
    source: Source,
    options: Options,
    session: Session,
    out: str | Path | None,
    on_choice: OnChoice,
) -> list[StepResult]:
    """Compare recipes, and build the corpus of the recommended one."""
    budget = GENERATE_BUDGET if options["budget"] is None else options["budget"]
    plan, artifacts = make_recommend_plan(
        source, options, session.store, budget=budget, seed=options["seed"]
    )
    first = session.without_tag().run_plan(plan, artifacts)
    if session.is_dry_run:
        return []
    recommendation = first[-1].built.artifact
    on_choice(read_evidence(recommendation))
    prepared = first[0].built.artifact if len(first) > 1 else None
    return [*first, *build_recommended(source, options, session, recommendation, prepared, out)]


def build_recommended(
    source: Source,
    options: Options,
    session: Session,
    recommendation: Artifact,
    prepared: Artifact | None = None,
    out: str | Path | None = None,
) -> list[StepResult]:
    """Build the corpus of a recommendation; ``prepared`` is the source corpus of a dataset.

    If no recipe is recommended, the result is the source corpus.
    """
    choice = read_evidence(recommendation).choice
    plan, artifacts = make_recommended_plan(source, options, session.store, recommendation, choice)
    if prepared is not None and len(plan) > 1 and plan[0].name == "prepare":
        artifacts["prepare"] = prepared
        plan = plan[1:]
    if plan:
        return session.run_plan(plan, artifacts, out, write_portable_copy)
    return session.reuse("prepare", artifacts["prepare"], out, write_portable_copy)


def augment(
    source: Source, options: Options, session: Session, out: str | Path | None = None
) -> list[StepResult]:
    """Build a corpus with graphs of a baseline method; return all steps, none for a dry run."""
    plan, artifacts = make_augment_plan(source, options, session.store)
    return session.run_plan(plan, artifacts, out, write_portable_copy)
