"""Durations, budgets and finalists of `gsx recommend`."""

import pytest

from gsx.errors import RecipeError, UsageError
from gsx.pipeline.named_recipes import named_recipes
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.recommend.config import parse_duration
from gsx.pipeline.recommend.confirm import MAX_STEPS, MIN_STEPS, plan_confirmation
from gsx.pipeline.recommend.decide import Difference
from gsx.pipeline.recommend.screen import FAMILIES, finalists
from gsx.stages.prepare.synthetic import motif

INFO = motif.corpus_info("motif-size")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("90", 90), ("10m", 600), ("1h", 3600), ("1h30m", 5400), ("0s", 0)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "ten minutes", "-5s", "5 m", "1.5h", "5x"])
def test_invalid_durations_are_errors(text):
    with pytest.raises(UsageError, match="such as 90s, 10m or 1h30m"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"budget": -1}, "budget must be in"),
        ({"graphs": 5}, "graphs must be at least 100"),
        ({"recipes": ["none"]}, "nothing to compare"),
        ({"recipes": ["grwo"]}, "Did you mean `grow`"),
    ],
)
def test_invalid_options_are_errors(options, text):
    with pytest.raises((UsageError, RecipeError), match=text):
        parse_config("recommend", options, "test")


def test_none_is_always_compared_and_need_not_be_named():
    config = parse_config("recommend", {"recipes": ["none", "grow", "grow"]}, "test")
    assert config.recipes == ("grow",)


def test_a_larger_budget_gives_more_steps_and_then_more_runs():
    plans = [plan_confirmation(INFO, 1000, 40.0, budget, 3) for budget in (120, 180, 600, 6000)]
    assert all(plan.network.steps >= MIN_STEPS for plan in plans)
    finalists = [plan.finalists for plan in plans]
    assert finalists == sorted(finalists)
    assert (finalists[0], finalists[-1]) == (1, 3)
    assert plans[3].network.steps == MAX_STEPS
    assert plans[3].runs > plans[2].runs >= 4 * 5


def test_a_budget_that_is_too_small_gives_no_plan():
    assert plan_confirmation(INFO, 1000, 40.0, 0, 4) is None
    assert plan_confirmation(INFO, 1000, 40.0, 30, 4) is None
    assert plan_confirmation(INFO, 1000, 1e6, 600, 4) is None


def test_without_finalists_there_is_no_plan():
    assert plan_confirmation(INFO, 1000, 40.0, 600, 0) is None


def difference(mean, probability):
    return Difference(mean=mean, low=mean - 1, high=mean + 1, probability=probability)


def test_finalists_are_the_best_of_their_families():
    values = {
        "combine-average": difference(1, 0.8),
        "combine-any": difference(2, 0.9),
        "grow": difference(3, 0.9),
        "swap": difference(0, 0.5),
        "shrink": difference(-9, 0.0),
        "drop-node": difference(-5, 0.01),
        "featx": difference(0.5, 0.6),
        "g-mixup": difference(0.1, 0.5),
    }
    assert finalists(values) == ("grow", "combine-any", "featx", "swap")


def test_finalists_that_the_screen_cannot_separate_follow_the_order_of_families():
    values = {
        "mask-feature": difference(0.0, 0.5),
        "shrink": difference(0.8, 0.75),
        "grow": difference(-0.01, 0.4),
    }
    assert finalists(values) == ("grow", "shrink", "mask-feature")
    better = {**values, "mask-feature": difference(1.5, 0.99)}
    assert finalists(better) == ("mask-feature", "grow", "shrink")
    families = {recipe.family for recipe in named_recipes().values() if recipe.name != "none"}
    assert set(FAMILIES) == families


def test_there_may_be_no_finalist():
    assert finalists({"grow": difference(-9, 0.0)}) == ()
