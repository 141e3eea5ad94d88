"""Every recipe in ``examples/`` has valid sections and options."""

from pathlib import Path

import pytest

from tests.support.artifacts import gsx

EXAMPLES = Path(__file__).parents[2] / "examples"
RECIPES = sorted(set(EXAMPLES.glob("*.toml")) - {EXAMPLES / "space.toml"})


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_dry_run_accepts_the_recipe(recipe, tmp_path):
    result = gsx("run", str(recipe), "--dry-run", "--store", str(tmp_path))
    assert result.code == 0, result.err


def test_recipes_are_found():
    assert {"featx", "motif", "splice"} <= {recipe.stem for recipe in RECIPES}
