"""`gsx tune`: search options of generation and training."""

from __future__ import annotations

import itertools
import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsx.errors import UsageError
from gsx.pipeline.commands.option_values import Options
from gsx.pipeline.commands.resolve_corpus import resolve_corpus
from gsx.pipeline.commands.session import Session
from gsx.pipeline.plan import Step, identity_of
from gsx.pipeline.pretraining_presets import preset_options
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.runner import run_plan
from gsx.pipeline.stage_order import stage_named
from gsx.pipeline.tuning import search_presets
from gsx.pipeline.tuning.search_space import (
    SECTIONS,
    SearchSpace,
    read_search_space,
    stage_options,
)
from gsx.pipeline.tuning.study import FinishedTrial, Study
from gsx.pipeline.tuning.trial import SharedOptions
from gsx.pipeline.tuning.tune import OnTrial, TuningRequest, TuningResult, check_source_corpus
from gsx.pipeline.tuning.tune import tune as run_tuning
from gsx.stages.chem.features import is_molecular
from gsx.stages.prepare.stage import FAMILIES
from gsx.stages.train.confidence_intervals import t_interval
from gsx.stages.train.presets import options_for
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.portable_copies import identity
from gsx.storage.corpora.summary import model_scores, selected_rule

MAX_COUNTED = 100_000
"""Combinations that a dry run counts."""
SearchValues = dict[str, tuple[Any, ...]]
"""Option, with its section → values to try."""


def check_counts(trials: int, seeds: int, round_size: int) -> None:
    """Raise UsageError for a number that must be at least 1."""
    for name, value in (("--trials", trials), ("--seeds", seeds), ("--round", round_size)):
        if value < 1:
            raise UsageError(f"{name} must be at least 1; got {value}")


def source_corpus(source: str | Artifact, options: Options, session: Session) -> Artifact | None:
    """Return the source corpus; a dataset is prepared first. None: missing in a dry run.

    ``options`` are those of the dataset: `num_graphs` and `raw`.
    """
    is_dataset = isinstance(source, str) and any(
        source in (*family.names, *family.aliases) for family in FAMILIES
    )
    if not is_dataset:
        corpus = resolve_corpus(session.store, source)
        if options["num_graphs"] is not None:
            raise UsageError(
                "--num-graphs applies to datasets only; SOURCE is a corpus. Leave it out."
            )
        return corpus
    prepare_options = {name: value for name, value in options.items() if value is not None}
    config = parse_config("prepare", {"dataset": source, **prepare_options}, "gsx prepare")
    step = Step(stage_named("prepare"), config, {})
    if session.is_dry_run:
        return session.store.find("corpus", identity_of(step, {}).key)
    results = run_plan((step,), session.store, notify=session.notify)
    return next(built.artifact for _, built in results)


def search_values(path: Path | None, method: str) -> SearchValues:
    """Return the values to try: those of a file, or the preset of the method."""
    if path is None:
        return dict(search_presets.METHODS[method].values)
    return dict(read_search_space(path, method).values)


def make_request(source: Artifact, values: SearchValues, options: Options) -> TuningRequest:
    """Return what to search on a corpus."""
    corpus = Corpus(source)
    splits = corpus.splits if corpus.info.level == "graph" else corpus.nodes
    check_source_corpus(corpus.info, splits, options["method"])
    values = search_presets.applicable_values(
        values, corpus.info, molecules=is_molecular(corpus.info)
    )
    method = search_presets.METHODS[options["method"]]
    columns = {column.name for column in corpus.info.columns}
    overrides = {name: options[name] for name in ("epochs", "width", "device")} | {
        "precision": "full"
    }
    fixed = {
        name: {**preset_options(name, options["preset"]), "device": options["device"]}
        for name in ("extract", "bridge")
    }
    if method.corpus_stage is not None and method.fixed:
        fixed[method.corpus_stage] = dict(method.fixed)
    fixed["train"] = options_for(options["preset"], overrides, corpus.info)
    return TuningRequest(
        source_key=identity(source).key,
        space=SearchSpace(values, edge_attributes="edge_attr" in columns),
        shared=SharedOptions(
            corpus_stage=method.corpus_stage,
            fixed=fixed,
            seeds=options["seeds"],
            seed=options["seed"],
        ),
        round_size=options["round_size"],
    )


def tune(
    request: TuningRequest, source: Artifact, trials: int, session: Session, on_trial: OnTrial
) -> TuningResult:
    """Run trials until ``trials`` have ended, including those of earlier runs."""
    return run_tuning(
        request,
        source,
        session.store,
        trials=trials,
        larger_is_better=Corpus(source).info.metric != "rmse",
        open_progress=session.open_progress,
        notify=session.notify,
        on_trial=on_trial,
        open_executor=session.cluster.executor_factory(session.notify),
    )


def result_document(request: TuningRequest, result: TuningResult) -> dict[str, Any]:
    """Return the result as plain values, with test scores of the best trial only."""
    qualities = [model_scores(model.manifest) for model in result.artifacts.models]
    splits = ("ood_val", "ood_test", "id_val", "id_test")
    best_epochs: list[Any] = [quality["selection"][selected_rule(quality)] for quality in qualities]
    scores = {
        split: {
            "mean": statistics.fmean(epoch[split] for epoch in best_epochs),
            "interval": t_interval([epoch[split] for epoch in best_epochs]),
        }
        for split in splits
        if all(split in epoch for epoch in best_epochs)
    }
    best, baseline = result.best, result.baseline.score or 0.0
    return {
        "study": str(result.path),
        "picked_by": "ood_val",
        "metric": qualities[0]["metric"],
        "seeds": request.shared.seeds,
        "none": {"ood_val": result.baseline.score, **result.baseline.details},
        "trials": [
            {
                "trial": trial.number,
                "ood_val": trial.score,
                "difference": None if trial.score is None else trial.score - baseline,
                "options": decode_params(trial.params),
                **trial.details,
            }
            for trial in result.trials
        ],
        "best": {
            "trial": best.number,
            "options": {
                stage: options
                for stage in SECTIONS
                if (options := stage_options(best.params, stage))
            },
            "corpus_key": result.artifacts.corpus.key,
            "model_keys": [model.key for model in result.artifacts.models],
            "scores": scores,
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStatus:
    """What a search would try, and how much of it is done."""

    study: Path | None
    """None while the source corpus is missing."""
    combinations: int
    """Up to MAX_COUNTED."""
    finished: int


def search_status(
    request: TuningRequest | None, values: SearchValues, store: Store
) -> SearchStatus:
    """Return the number of combinations and of finished trials."""
    space = SearchSpace(values) if request is None else request.space
    path = None if request is None else request.study_path(store)
    finished: list[FinishedTrial] = []
    if path is not None and request is not None and path.is_file():
        study = Study(path, space, seed=request.shared.seed, larger_is_better=True)
        finished = list(study.finished_trials())
    combinations = sum(1 for _ in itertools.islice(space.all_params(), MAX_COUNTED))
    return SearchStatus(study=path, combinations=combinations, finished=len(finished))


def decode_params(params: dict[str, str]) -> dict[str, Any]:
    """Return the options of a trial with their values."""
    return {name: json.loads(value) for name, value in params.items()}
