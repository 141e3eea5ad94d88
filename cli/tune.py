"""`gsx tune`: search options of generation and training."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import (
    cluster_options,
    device_option,
    dry_run_option,
    json_option,
    num_graphs_option,
    quiet_option,
    raw_option,
    seed_option_with_default,
    store_option,
)
from gsx.cli.output import echo, format_score, format_table, notify, print_json, progress_bar
from gsx.cli.train_options import PRESETS
from gsx.pipeline.distributed.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from gsx.pipeline.tuning.study import FinishedTrial
    from gsx.pipeline.tuning.tune import TuningRequest, TuningResult
    from gsx.storage.artifacts.store import Artifact, Store

METHODS = ("g-splice", "featx", "g-splice+featx", "drop-node", "drop-edge", "mask-feature",
           "g-mixup", "none")  # fmt: skip
MAX_COUNTED = 100_000
"""Combinations that a dry run counts."""
ROUND_SIZE = 4
"""Trials proposed together if there are workers, for any number of them."""


@click.command(short_help="Search options of generation and training.")
@click.argument("source")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="g-splice",
    show_default=True,
    metavar="METHOD",
    help=f"Augmentation method: {', '.join(METHODS[:-1])}; none trains on SOURCE.",
)
@click.option(
    "--trials",
    type=int,
    default=20,
    show_default=True,
    help="Number of trials, including those of earlier runs.",
)
@click.option(
    "--seeds",
    type=int,
    default=1,
    show_default=True,
    help="Training runs per trial; their mean score counts.",
)
@seed_option_with_default
@click.option(
    "--round",
    "round_size",
    type=int,
    metavar="N",
    help="Trials proposed together; workers run them in parallel.  [default: 1; with workers 4]",
)
@click.option(
    "--space",
    type=click.Path(path_type=Path),
    metavar="FILE.toml",
    help="Values to try.  [default: those of the paper for the method]",
)
@click.option(
    "--preset",
    type=click.Choice(list(PRESETS)),
    default="default",
    show_default=True,
    help="Values of epochs and width of pretraining and training.",
)
@click.option("--epochs", type=int, help="Epochs of training.")
@click.option("--width", type=int, help="Hidden units per layer of the classifier.")
@num_graphs_option
@raw_option
@device_option
@cluster_options
@dry_run_option
@quiet_option
@json_option
@store_option
def tune(
    source: str,
    *,
    trials: int,
    round_size: int | None,
    num_graphs: int | None,
    raw: str | None,
    cluster: ClusterOptions,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    store: str | None,
    **options: Any,  # noqa: ANN401
) -> None:
    """Search for the options that give the best OOD validation score.

    SOURCE is a dataset or a corpus. The first run trains on SOURCE without augmentation; every
    trial builds a corpus and trains on it, and its difference to the first run is printed. Test
    scores are computed once, for the trial with the best OOD validation score. The same command
    resumes an interrupted search. The proposed trials depend on --round, not on the number of
    workers.
    """
    from gsx.errors import UsageError
    from gsx.storage.artifacts.store import Store

    default_round_size = ROUND_SIZE if cluster.enabled else 1
    options["round_size"] = default_round_size if round_size is None else round_size
    for name, value in (
        ("--trials", trials), ("--seeds", options["seeds"]), ("--round", options["round_size"]),
    ):  # fmt: skip
        if value < 1:
            raise UsageError(f"{name} must be at least 1; got {value}")
    artifact_store = Store.at(store)
    prepare_options = {"num_graphs": num_graphs, "raw": raw}
    corpus = _source_corpus(source, prepare_options, artifact_store, dry_run=dry_run)
    values = _search_values(options["space"], options["method"])
    request = None if corpus is None else _make_request(corpus, values, options)
    if dry_run:
        _print_plan(request, values, artifact_store, trials, as_json=as_json)
        return
    assert corpus is not None
    assert request is not None
    result = _run(request, corpus, artifact_store, trials, cluster, quiet=quiet or as_json)
    document = _result_json(request, result)
    if as_json:
        print_json(document)
    elif not quiet:
        echo(*_format_result(document))


def _source_corpus(
    source: str, options: dict[str, Any], store: Store, *, dry_run: bool
) -> Artifact | None:
    """Return the source corpus; a dataset is prepared first. None: missing in a dry run."""
    from gsx.errors import UsageError
    from gsx.pipeline.commands.resolve_corpus import resolve_corpus
    from gsx.pipeline.plan import Step, identity_of
    from gsx.pipeline.recipe import parse_config
    from gsx.pipeline.runner import run_plan
    from gsx.pipeline.stage_order import stage_named
    from gsx.stages.prepare.stage import FAMILIES

    if not any(source in (*family.names, *family.aliases) for family in FAMILIES):
        if options["num_graphs"] is not None:
            raise UsageError(
                "--num-graphs applies to datasets only; SOURCE is a corpus. Leave it out."
            )
        return resolve_corpus(store, source)
    prepare_options = {name: value for name, value in options.items() if value is not None}
    config = parse_config("prepare", {"dataset": source, **prepare_options}, "gsx prepare")
    step = Step(stage_named("prepare"), config, {})
    if dry_run:
        return store.find("corpus", identity_of(step, {}).key)
    return next(built.artifact for _, built in run_plan((step,), store, notify=notify))


def _search_values(path: Path | None, method: str) -> dict[str, tuple[Any, ...]]:
    """Return the values to try: those of a file, or the preset of the method."""
    from gsx.pipeline.tuning import search_presets
    from gsx.pipeline.tuning.search_space import read_search_space

    if path is None:
        return dict(search_presets.METHODS[method].values)
    return dict(read_search_space(path, method).values)


def _make_request(
    source: Artifact, values: dict[str, tuple[Any, ...]], options: dict[str, Any]
) -> TuningRequest:
    from gsx.pipeline.pretraining_presets import preset_options
    from gsx.pipeline.tuning import search_presets
    from gsx.pipeline.tuning.search_space import SearchSpace
    from gsx.pipeline.tuning.trial import SharedOptions
    from gsx.pipeline.tuning.tune import TuningRequest, check_source_corpus
    from gsx.stages.chem.features import is_molecular
    from gsx.stages.train.presets import options_for
    from gsx.storage.corpora.corpus import Corpus
    from gsx.storage.corpora.portable_copies import identity

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


def _run(
    request: TuningRequest,
    source: Artifact,
    store: Store,
    trials: int,
    cluster: ClusterOptions,
    *,
    quiet: bool,
) -> TuningResult:
    from gsx.pipeline.tuning.tune import tune as run_tuning
    from gsx.storage.corpora.corpus import Corpus

    def print_trial(trial: FinishedTrial, best: FinishedTrial | None) -> None:
        if quiet:
            return
        reason = trial.details.get("reason")
        outcome = reason if trial.score is None else f"ood_val {trial.score:.2f}"
        best_so_far = "" if best is None else f"  (best {best.score:.2f}, trial {best.number})"
        params = _format_params(_decode(trial.params))
        notify(f"trial {trial.number:>3}: {outcome}{best_so_far}  {params}")

    notify_unless_quiet = (lambda _: None) if quiet else notify
    return run_tuning(
        request,
        source,
        store,
        trials=trials,
        larger_is_better=Corpus(source).info.metric != "rmse",
        open_progress=lambda name: progress_bar(name, quiet=quiet),
        notify=notify_unless_quiet,
        on_trial=print_trial,
        open_executor=cluster.executor_factory(notify_unless_quiet),
    )


def _result_json(request: TuningRequest, result: TuningResult) -> dict[str, Any]:
    """Return the JSON output, with test scores of the best trial only."""
    import statistics

    from gsx.pipeline.tuning.search_space import SECTIONS, stage_options
    from gsx.stages.train.confidence_intervals import t_interval
    from gsx.storage.corpora.summary import model_scores, selected_rule

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
                "options": _decode(trial.params),
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


def _format_result(document: dict[str, Any]) -> list[str]:
    rows = [
        (
            trial["trial"],
            format_score(trial["ood_val"]),
            None if trial["difference"] is None else f"{trial['difference']:+.2f}",
            _format_params(trial["options"]),
        )
        for trial in sorted(document["trials"], key=lambda trial: trial["trial"])
    ]
    best, baseline = document["best"], document["none"]["ood_val"]
    rows = [("none", format_score(baseline), None, "the source corpus"), *rows]
    differences = [trial["difference"] for trial in document["trials"]]
    gains = [value for value in differences if value is not None]
    worse = document["metric"] == "rmse"
    helps = any(value < 0 if worse else value > 0 for value in gains)
    verdict = [] if helps else [f"no trial is better than none (ood_val {baseline:.2f})"]
    scores = ", ".join(f"{split} {row['mean']:.2f}" for split, row in best["scores"].items())
    return [
        *format_table(rows, ("TRIAL", "OOD_VAL", "DIFF", "OPTIONS")),
        "",
        *verdict,
        f"selected by ood_val: trial {best['trial']}, over {document['seeds']} seed(s)",
        f"{document['metric']}: {scores}",
        f"corpus {best['corpus_key'][:12]}, models "
        + ", ".join(key[:12] for key in best["model_keys"]),
        f"study {document['study']}",
    ]


def _decode(params: dict[str, str]) -> dict[str, Any]:
    return {name: json.loads(value) for name, value in params.items()}


def _format_params(params: dict[str, Any]) -> str:
    return " ".join(
        f"{name.partition('.')[2]}={'..'.join(map(str, v)) if isinstance(v, list) else v}"
        for name, v in params.items()
    )


def _print_plan(
    request: TuningRequest | None,
    values: dict[str, tuple[Any, ...]],
    store: Store,
    trials: int,
    *,
    as_json: bool,
) -> None:
    """Print the values to try and the number of finished trials."""
    from gsx.pipeline.tuning.search_space import SearchSpace
    from gsx.pipeline.tuning.study import Study

    space = SearchSpace(values) if request is None else request.space
    combinations = sum(1 for _ in itertools.islice(space.all_params(), MAX_COUNTED))
    path = None if request is None else request.study_path(store)
    finished = 0
    if path is not None and request is not None and path.is_file():
        study = Study(path, space, seed=request.shared.seed, larger_is_better=True)
        finished = len(study.finished_trials())
    document = {
        "source": None if request is None else request.source_key,
        "study": None if path is None else str(path),
        "trials": trials,
        "done": finished,
        "choices": combinations,
        "values": {name: list(listed) for name, listed in values.items()},
    }
    if as_json:
        print_json(document)
        return
    rows = [
        (name, ", ".join(json.dumps(value) for value in listed)) for name, listed in values.items()
    ]
    echo(*format_table(rows, ("OPTION", "VALUES")))
    count = f"{combinations:,}" if combinations < MAX_COUNTED else f"{MAX_COUNTED:,} or more"
    echo(f"{count} combinations; {finished} of {trials} trials finished")
    echo("study: " + (str(path) if path else "created when the source corpus is prepared"))
