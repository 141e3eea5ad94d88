"""Confirm: train networks for the finalists and `none`, with paired seeds and equal steps.

Seeds are added one at a time. A recipe that has become unlikely to be better is dropped, so that
the rest of the budget goes to those that are undecided. A fixed cost model turns the budget into a
number of steps, so that the result does not depend on the speed of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from gsx.errors import StageError
from gsx.pipeline.named_recipes import NONE
from gsx.pipeline.recommend.decide import Difference, paired_differences
from gsx.pipeline.recommend.task_runner import TaskRunner, error_text
from gsx.pipeline.recommend.worker import NetworkOptions, Task
from gsx.ragged import Array
from gsx.schema import CorpusInfo

SECONDS_PER_EDGE = {"gin": 1.3e-6, "vgin": 6e-6}
"""Seconds per edge and gradient step of a network of width 64 with 3 layers, on one core."""
SECONDS_PER_STEP = {"gin": 0.002, "vgin": 0.004, "gcn": 0.03}
"""Seconds per gradient step, in addition to those per edge."""
SECONDS_PER_RUN = 2.0
"""Seconds per training run for the new graphs and the start of the process."""
WIDTH, AVERAGE, BATCH_SIZE, MIN_BATCH_SIZE = 64, 0.99, 128, 16
MIN_STEPS, MAX_STEPS = 1500, 3000
MIN_SEEDS, PLANNED_SEEDS, MAX_SEEDS = 3, 5, 15
DROPPED = 0.2
"""After ``MIN_SEEDS``, recipes that are better with a lower probability get no more seeds."""
KEPT = {3: 2, 5: 1}
"""Number of seeds → how many recipes get further ones: those most likely to be better."""
CERTAIN = 0.999
"""After ``PLANNED_SEEDS``, a recipe that is better with this probability ends the comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationPlan:
    """Training options and the number of runs that fit into the budget."""

    network: NetworkOptions
    finalists: int
    """Number of recipes to compare with `none`."""
    runs: int
    """Largest number of training runs, over all recipes and seeds."""


@dataclass(slots=True)
class Confirmation:
    """Logits of trained networks, by recipe and seed."""

    runs: dict[str, list[Array]]
    differences: dict[str, Difference] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    """Recipe → number of seeds after which it was dropped."""


def plan_confirmation(
    info: CorpusInfo, graphs: int, mean_edges: float, budget: int, finalists: int
) -> ConfirmationPlan | None:
    """Return what to train for a budget in seconds; None if it is too small.

    ``graphs`` and ``mean_edges`` describe the training graphs of the sample. If the budget is not
    enough for all ``finalists``, fewer are compared, because networks that are trained for too few
    steps are no evidence.
    """
    columns = {column.name for column in info.columns}
    if info.level == "node":
        backbone, batch_size, step_seconds = "gcn", 1000, SECONDS_PER_STEP["gcn"]
    else:
        backbone = "vgin" if "smiles" in columns else "gin"
        batch_size = max(min(BATCH_SIZE, graphs // 16), MIN_BATCH_SIZE)
        step_seconds = batch_size * mean_edges * SECONDS_PER_EDGE[backbone]
        step_seconds += SECONDS_PER_STEP[backbone]
    for seeds, compared in product((PLANNED_SEEDS, MIN_SEEDS), range(finalists, 0, -1)):
        later = min(compared, KEPT[MIN_SEEDS])  # recipes that get more than MIN_SEEDS seeds
        needed = (compared + 1) * MIN_SEEDS + (later + 1) * (seeds - MIN_SEEDS)
        run_seconds = budget / needed
        steps = min(int((run_seconds - SECONDS_PER_RUN) / step_seconds), MAX_STEPS)
        if steps >= MIN_STEPS:
            network = NetworkOptions(
                steps=steps, batch_size=batch_size, width=WIDTH, average=AVERAGE, backbone=backbone
            )
            runs = int(budget / (SECONDS_PER_RUN + steps * step_seconds))
            return ConfirmationPlan(network=network, finalists=compared, runs=runs)
    return None


def confirm(
    runner: TaskRunner,
    plan: ConfirmationPlan,
    sample: str,
    models: Mapping[str, str],
    recipes: Sequence[str],
    info: CorpusInfo,
    y: Array,
    seed: int,
) -> Confirmation:
    """Train networks for the recipes and `none` until the budget is used or all are decided."""
    result = Confirmation(runs={name: [] for name in (NONE, *recipes)})
    contenders, finished = list(recipes), 0
    for number in range(MAX_SEEDS):
        contenders = [name for name in contenders if name not in result.failed]
        if not contenders or finished + len(contenders) + 1 > plan.runs:
            break
        tasks = {
            f"confirm-{name}-{number}": Task(
                sample=sample, models=dict(models), recipe=name, seed=seed + number,
                network=plan.network,
            )
            for name in (NONE, *contenders)
        }  # fmt: skip
        finished += len(tasks)
        outputs = runner.run(tasks, f"confirm, seed {number}")
        for name in (NONE, *contenders):
            output = outputs[f"confirm-{name}-{number}"]
            error = error_text(output)
            if error is None:
                result.runs[name].append(output["logits"])
            else:
                result.failed[name] = error
        if NONE in result.failed:
            raise StageError(f"no network can be trained on {info.name}: {result.failed[NONE]}")
        result.differences = paired_differences(
            info.metric, info.task, y, result.runs, NONE, "confirm", seed
        )
        if number + 1 >= MIN_SEEDS:
            contenders = _still_undecided(contenders, result, number + 1)
            if number + 1 >= PLANNED_SEEDS and any(
                result.differences[name].probability >= CERTAIN for name in contenders
            ):
                break
    return result


def _still_undecided(contenders: list[str], result: Confirmation, seeds: int) -> list[str]:
    """Return the recipes that may still turn out to be better, and record the others."""
    order = sorted(contenders, key=lambda name: -result.differences[name].probability)
    limit = KEPT.get(seeds, len(order))
    kept = [
        name
        for rank, name in enumerate(order)
        if rank < limit and result.differences[name].probability >= DROPPED
    ]
    result.dropped |= {name: seeds for name in contenders if name not in kept}
    return kept
