"""`gsx run`: run all stages of a recipe file."""

from __future__ import annotations

from pathlib import Path

from gsx.pipeline.commands.session import Session, StepResult
from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import read_recipe


def run(recipe: Path, session: Session, *, raw: str | None = None) -> list[StepResult]:
    """Run the stages of a recipe; existing artifacts are reused. Return all steps."""
    return session.run_plan(make_plan(read_recipe(recipe, raw=raw)), {})
