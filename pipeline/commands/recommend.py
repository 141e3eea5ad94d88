"""`gsx recommend`: find out which named recipe helps on a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gsx.pipeline.commands.generate_plan import Source
from gsx.pipeline.commands.option_values import RECOMMEND_BUDGET, Options
from gsx.pipeline.commands.recommend_plan import make_recommend_plan
from gsx.pipeline.commands.session import Session, StepResult
from gsx.pipeline.recommend.evidence import FILE, Evidence
from gsx.storage.artifacts.sidecars import read_run_record
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import read_json


def recommend(
    source: Source,
    options: Options,
    session: Session,
    out: str | Path | None = None,
    *,
    budget: str | int = RECOMMEND_BUDGET,
    recipes: str | Sequence[str] | None = None,
    graphs: int = 3000,
    seed: int = 0,
) -> list[StepResult]:
    """Compare named recipes on a dataset or a corpus; return all steps, none for a dry run.

    ``options`` are those of the dataset: `num_graphs` and `raw`.
    """
    plan, artifacts = make_recommend_plan(
        source, options, session.store, budget=budget, recipes=recipes, graphs=graphs, seed=seed
    )
    return session.run_plan(plan, artifacts, out)


def read_evidence(recommendation: Artifact) -> Evidence:
    """Return the evidence of a recommendation."""
    return read_json(recommendation.location, FILE, Evidence)


def recipe_seconds(recommendation: Artifact) -> dict[str, float]:
    """Return the seconds that every recipe took, if they were recorded."""
    record = read_run_record(recommendation.location)
    return {} if record is None else record.timings


def evidence_table(
    evidence: Evidence, seconds: Mapping[str, float]
) -> tuple[list[tuple[object, ...]], tuple[str, ...]]:
    """Return rows and headers of a table of all compared recipes."""
    digits = 3 if evidence.metric in ("mcc", "rmse") else 1
    rows: list[tuple[object, ...]] = []
    for recipe in evidence.recipes:
        if recipe.left_out is not None:
            continue
        confirmed = recipe.confirmed
        rows.append(
            (
                recipe.name,
                _mean(recipe.screen_scores, digits),
                "" if recipe.screen is None else f"{recipe.screen.mean:+.{digits}f}",
                _mean(recipe.scores, digits),
                ""
                if confirmed is None
                else f"{confirmed.mean:+.{digits}f} "
                f"({confirmed.low:+.{digits}f} to {confirmed.high:+.{digits}f})",
                len(recipe.scores) or "",
                f"{seconds[recipe.name]:.0f}" if recipe.name in seconds else "",
            )
        )
    return rows, ("RECIPE", "SCREEN", "DIFF", "TRAINED", "DIFFERENCE", "RUNS", "SECONDS")


def _mean(scores: tuple[float, ...], digits: int) -> str:
    return f"{sum(scores) / len(scores):.{digits}f}" if scores else ""
