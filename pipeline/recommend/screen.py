"""Screen: compare all candidates by linear models, in seconds.

Features are counts of Weisfeiler-Lehman subtrees, Morgan fingerprints of molecules, or node
features with those of neighbors. Their variant and the penalty are chosen once, for `none`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gsx.errors import StageError
from gsx.pipeline.named_recipes import NONE, named_recipe
from gsx.pipeline.recommend.decide import Difference
from gsx.pipeline.recommend.task_runner import TaskRunner, error_text
from gsx.pipeline.recommend.worker import LinearOptions, Task
from gsx.ragged import Array
from gsx.schema import CorpusInfo
from gsx.stages.train.metrics import is_better, score

REPLICATES = 3
"""Linear models per candidate, each with other new graphs and another subset of graphs."""
STRENGTHS = (10.0, 1.0, 0.1, 0.01)
COUNTS: tuple[Literal["log", "shares"], ...] = ("log", "shares")
MAX_FINALISTS = 4
FAMILIES = (
    "grow", "combine", "features", "both", "swap", "shrink", "splice", "mixup", "perturb",
)  # fmt: skip
"""Order of the families that the screen cannot separate from `none`: those that leave the training
range, then those that recombine training graphs, then those that perturb them."""
HOPELESS = 0.05
"""Candidates that are better than `none` with a lower probability are not confirmed."""


@dataclass(frozen=True, slots=True)
class Screening:
    """Logits of the screen, by recipe and replicate."""

    linear: LinearOptions
    runs: dict[str, list[Array]]
    failed: dict[str, str]
    """Recipe → why no corpus could be generated or no model fitted."""


def screen(
    runner: TaskRunner,
    sample: str,
    models: Mapping[str, str],
    candidates: Sequence[str],
    info: CorpusInfo,
    y: Array,
    seed: int,
) -> Screening:
    """Fit linear models to the corpora of all candidates and of `none`."""
    linear = _choose_linear(runner, sample, info, y, seed)
    tasks = {
        f"screen-{name}-{replicate}": Task(
            sample=sample, models=dict(models), recipe=name, seed=seed + replicate, linear=linear
        )
        for name in (NONE, *candidates)
        for replicate in range(REPLICATES)
    }
    results = runner.run(tasks, "screen")
    runs: dict[str, list[Array]] = {}
    failed: dict[str, str] = {}
    for name in (NONE, *candidates):
        replicates = [results[f"screen-{name}-{replicate}"] for replicate in range(REPLICATES)]
        errors = [text for result in replicates if (text := error_text(result)) is not None]
        if errors:
            failed[name] = errors[0]
        else:
            runs[name] = [result["logits"] for result in replicates]
    if NONE in failed:
        raise StageError(f"no linear model can be fitted to {info.name}: {failed[NONE]}")
    return Screening(linear, runs, failed)


def _choose_linear(
    runner: TaskRunner, sample: str, info: CorpusInfo, y: Array, seed: int
) -> LinearOptions:
    """Return the features and the penalty that are best for `none`."""
    columns = {column.name for column in info.columns}
    if info.level == "node":
        options = [LinearOptions(kind="node", strength=strength) for strength in STRENGTHS]
    else:
        options = [
            LinearOptions(
                kind="morgan" if "smiles" in columns else "wl", counts=counts, strength=strength
            )
            for counts in COUNTS
            for strength in STRENGTHS
        ]
    tasks = {
        f"linear-{number}": Task(sample=sample, models={}, recipe=NONE, seed=seed, linear=option)
        for number, option in enumerate(options)
    }
    results = runner.run(tasks, "choose features")
    best, best_score = options[0], None
    for option, name in zip(options, tasks, strict=True):
        error = error_text(results[name])
        if error is not None:
            raise StageError(f"no linear model can be fitted to {info.name}: {error}")
        value = score(info.metric, info.task, results[name]["logits"], y)
        assert value is not None  # the metric is defined on the validation split
        if best_score is None or is_better(info.metric, value, best_score):
            best, best_score = option, value
    return best


def finalists(differences: Mapping[str, Difference]) -> tuple[str, ...]:
    """Return the recipes to confirm: the best of each family, unless it is clearly worse.

    Recipes whose interval is above zero come first, the best one first. The others follow in the
    order of their families: where linear models cannot separate recipes, for example because they
    predict almost all validation labels anyway, their differences are noise. The budget may be
    enough for the first finalists only.
    """
    best: dict[str, str] = {}
    for name, value in differences.items():
        family = named_recipe(name).family
        if family not in best or value.mean > differences[best[family]].mean:
            best[family] = name
    kept = [name for name in best.values() if differences[name].probability >= HOPELESS]

    def rank(name: str) -> tuple[bool, float, str]:
        difference = differences[name]
        if difference.low > 0:
            return (False, -difference.mean, name)
        return (True, FAMILIES.index(named_recipe(name).family), name)

    return tuple(sorted(kept, key=rank)[:MAX_FINALISTS])
