"""Compare training with and without augmented graphs, or on two corpora, paired by seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gsx.errors import UsageError
from gsx.pipeline.plan import Step
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.runner import OpenProgress, run_plan
from gsx.pipeline.stage_order import stage_named
from gsx.schema import ORIGINS
from gsx.stages.nn.training_loop import one_thread
from gsx.stages.stage import ignore_progress
from gsx.stages.train.config import CLASSICAL, TrainConfig
from gsx.stages.train.data import TEST, VALIDATION
from gsx.stages.train.paired_comparison import Comparison, compare_runs
from gsx.stages.train.result_file import scores_of
from gsx.stages.train.stage import ROLES, training_origins
from gsx.storage.artifacts.publish import BuildResult
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.portable_copies import identity

Notify = Callable[[str], None]
FEW_SEEDS = 5
"""With fewer seeds, the bootstrap clearly underestimates the variance between seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """What to train and to compare."""

    corpus: Artifact
    baseline: Artifact | None = None
    """Corpus to compare with; None: the source graphs of ``corpus``."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the stage ``train`` for both sides."""
    seeds: int = 5
    first_seed: int = 0
    splits: tuple[str, ...] = TEST
    """Splits to compare on, as far as both corpora have them."""
    equal_epochs: bool = False
    """Whether both sides are trained for equally many epochs instead of gradient steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedModels:
    """Two models with the same seed, and their scores on the compared splits."""

    seed: int
    model_key: str
    baseline_key: str
    scores: Mapping[str, float | None]
    baseline_scores: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusComparison:
    """Result of a comparison of two corpora."""

    name: str
    metric: str
    steps: int | None
    """Gradient steps of every run; None with equal epochs and for linear models."""
    runs: tuple[PairedModels, ...]
    splits: Mapping[str, Comparison]
    """Split → difference of the mean scores, with its interval."""
    items: Mapping[str, int]
    """Split → graphs, or labelled nodes, in it."""
    builds: tuple[tuple[BuildResult, BuildResult], ...]
    """Trained models per seed: of the corpus and of the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One side of the comparison: a corpus and the options to train on it."""

    artifact: Artifact
    options: dict[str, Any]

    @property
    def stage(self) -> str:
        """Stage that wrote the corpus."""
        stage = identity(self.artifact).stage
        return stage if stage in ROLES.values() else "prepare"

    def config(self, seed: int) -> TrainConfig:
        """Return the config of a run."""
        options = {**self.options, "source": self.stage, "seed": seed}
        config: TrainConfig = parse_config("train", options, "gsx compare")
        return config


def compare_corpora(
    request: CompareRequest,
    store: Store,
    *,
    open_progress: OpenProgress = lambda _: nullcontext(ignore_progress),
    notify: Notify = lambda _: None,
    on_pair: Callable[[PairedModels], None] = lambda _: None,
) -> CorpusComparison:
    """Train on both corpora with every seed and compare the models of equal seeds.

    Models that the store has are reused, so an interrupted comparison resumes. ``on_pair`` receives
    every pair of models as soon as both are trained.
    """
    corpus, baseline = _sides(request)
    info = Corpus(corpus.artifact).info
    splits = _common_splits(request, corpus.artifact, baseline.artifact)
    steps = None if request.equal_epochs else _common_steps(corpus, baseline)
    if steps is not None:
        for side in (corpus, baseline):
            side.options["steps"] = steps
    if set(splits) <= set(VALIDATION):
        for side in (corpus, baseline):
            side.options["evaluate"] = "validation"
    runs, builds = [], []
    for seed in _seeds(request, corpus, notify):
        built, reference = (
            _train(side, seed, name, store, open_progress, notify)
            for side, name in ((corpus, "corpus"), (baseline, "baseline"))
        )
        pair = PairedModels(
            seed=seed,
            model_key=built.artifact.key,
            baseline_key=reference.artifact.key,
            scores=_selected_scores(built, splits),
            baseline_scores=_selected_scores(reference, splits),
        )
        runs.append(pair)
        builds.append((built, reference))
        on_pair(pair)
    with one_thread():
        rows = {
            split: _compare_split(info.name, (corpus, baseline), builds, split) for split in splits
        }
    counts = Corpus(corpus.artifact).nodes or Corpus(corpus.artifact).splits
    return CorpusComparison(
        name=info.name,
        metric=info.metric,
        steps=steps,
        runs=tuple(runs),
        splits=rows,
        items={split: counts[split] for split in splits},
        builds=tuple(builds),
    )


def _sides(request: CompareRequest) -> tuple[_Side, _Side]:
    """Return the corpus and the baseline; reject comparisons of equal data."""
    corpus = _Side(artifact=request.corpus, options=dict(request.options))
    if request.baseline is None:
        if not _has_augmented_graphs(Corpus(request.corpus)):
            raise UsageError(
                f"corpus {request.corpus.key[:12]} has no augmented graphs, so there is nothing to "
                "compare. Name an augmented corpus, or a second corpus."
            )
        options = {**request.options, "augmented": False}
        return corpus, _Side(artifact=request.corpus, options=options)
    if identity(request.baseline).digest == identity(request.corpus).digest:
        raise UsageError("both corpora are the same. Name two different ones.")
    return corpus, _Side(artifact=request.baseline, options=dict(request.options))


def _has_augmented_graphs(corpus: Corpus) -> bool:
    code = ORIGINS.index("source")
    return any(
        (table.dense("graph", "origin") != code).any()
        for table in corpus.iter_tables(columns=["origin"])
    )


def _common_splits(request: CompareRequest, *artifacts: Artifact) -> tuple[str, ...]:
    """Return the splits to compare on that all corpora have."""
    available = [set(corpus.nodes or corpus.splits) for corpus in map(Corpus, artifacts)]
    splits = tuple(split for split in request.splits if all(split in row for row in available))
    if not splits:
        raise UsageError(
            f"the corpora have no common split among {', '.join(request.splits)}. `gsx show` lists "
            "the splits of a corpus."
        )
    return splits


def _common_steps(*sides: _Side) -> int | None:
    """Return the gradient steps of the larger corpus; None if both have equally many per epoch.

    Larger corpora have more steps per epoch. Without equal steps, a difference could come from
    longer training.
    """
    config = sides[0].config(0)
    if config.steps is not None:
        return config.steps
    if config.backbone == "gcn" or config.backbone in CLASSICAL:
        return None
    per_epoch = {max(_training_graphs(side) // config.batch_size, 1) for side in sides}
    return config.epochs * max(per_epoch)


def _training_graphs(side: _Side) -> int:
    """Return the number of labelled training graphs of one side."""
    origins = training_origins(side.config(0))
    codes = [ORIGINS.index(origin) for origin in origins or ORIGINS]
    table = Corpus(side.artifact).table(split="train", columns=["origin", "y"])
    labelled = ~np.isnan(table.dense("graph", "y")).all(axis=1)
    return int((labelled & np.isin(table.dense("graph", "origin"), codes)).sum())


def _seeds(request: CompareRequest, corpus: _Side, notify: Notify) -> Sequence[int]:
    if request.seeds < 1:
        raise UsageError(f"--seeds must be at least 1; got {request.seeds}")
    seeds = range(request.first_seed, request.first_seed + request.seeds)
    if corpus.config(0).backbone in CLASSICAL and len(seeds) > 1:
        notify("linear models do not depend on the seed: one run is enough")
        return seeds[:1]
    if len(seeds) < FEW_SEEDS:
        notify(
            f"{len(seeds)} of the usual {FEW_SEEDS} seeds: the interval underestimates the "
            "differences between seeds"
        )
    return seeds


def _train(
    side: _Side,
    seed: int,
    name: str,
    store: Store,
    open_progress: OpenProgress,
    notify: Notify,
) -> BuildResult:
    """Train one model, or return the one that the store has."""
    stage, config = stage_named("train"), side.config(seed)
    plan = (Step(stage, config, stage.inputs_of(config)),)
    ((_, built),) = run_plan(
        plan,
        store,
        artifacts={side.stage: side.artifact},
        open_progress=lambda _: open_progress(f"{name}, seed {seed}"),
        notify=notify,
    )
    return built


def _selected_scores(built: BuildResult, splits: Sequence[str]) -> dict[str, float | None]:
    scores = scores_of(built)
    selected = scores["selection"][scores["selected"]]
    return {split: selected.get(split) for split in splits}


def _compare_split(
    name: str,
    sides: tuple[_Side, _Side],
    builds: Sequence[tuple[BuildResult, BuildResult]],
    split: str,
) -> Comparison:
    """Return the paired comparison of all models on a split."""
    artifacts = {side.artifact.key: side.artifact for side in sides}
    artifacts |= {built.artifact.key: built.artifact for pair in builds for built in pair}
    pairs = [
        (_run_of(sides[0], built), _run_of(sides[1], reference)) for built, reference in builds
    ]
    return compare_runs(name, pairs, split, lambda key, _kind: artifacts[key])


def _run_of(side: _Side, built: BuildResult) -> dict[str, Any]:
    """Return the fields of a result file that a comparison reads."""
    return {
        "seed": built.artifact.manifest.config["seed"],
        "model_key": built.artifact.key,
        "corpus_key": side.artifact.key,
        "selection": scores_of(built)["selected"],
    }
