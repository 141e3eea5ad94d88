"""`gsx tune`: search options of generation and training."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import (
    RunOptions,
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
from gsx.cli.output import echo, format_score, format_table, notify, print_json
from gsx.cli.run_plan import open_session
from gsx.cli.train_options import PRESETS
from gsx.pipeline.distributed.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from gsx.pipeline.commands.tune import SearchStatus, SearchValues
    from gsx.pipeline.tuning.study import FinishedTrial
    from gsx.pipeline.tuning.tune import TuningRequest

METHODS = ("g-splice", "featx", "g-splice+featx", "drop-node", "drop-edge", "mask-feature",
           "g-mixup", "none")  # fmt: skip
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
    from gsx.pipeline.commands.tune import (
        check_counts,
        make_request,
        result_document,
        search_status,
        search_values,
        source_corpus,
    )
    from gsx.pipeline.commands.tune import tune as run_tuning

    default_round_size = ROUND_SIZE if cluster.enabled else 1
    options["round_size"] = default_round_size if round_size is None else round_size
    check_counts(trials, options["seeds"], options["round_size"])
    run_options = RunOptions(
        store=store, force=False, dry_run=dry_run, as_json=as_json, quiet=quiet
    )
    session = open_session(run_options, cluster)
    prepare_options = {"num_graphs": num_graphs, "raw": raw}
    noted = dataclasses.replace(session, notify=notify)
    corpus = source_corpus(source, prepare_options, noted)
    values = search_values(options["space"], options["method"])
    request = None if corpus is None else make_request(corpus, values, options)
    if dry_run:
        status = search_status(request, values, session.store)
        _print_plan(request, values, status, trials, as_json=as_json)
        return
    assert corpus is not None
    assert request is not None
    silent = quiet or as_json
    session = dataclasses.replace(session, notify=(lambda _: None) if silent else notify)
    on_trial = _ignore_trial if silent else _print_trial
    document = result_document(request, run_tuning(request, corpus, trials, session, on_trial))
    if as_json:
        print_json(document)
    elif not quiet:
        echo(*_format_result(document))


def _print_trial(trial: FinishedTrial, best: FinishedTrial | None) -> None:
    """Print the outcome of a trial, and the best one so far."""
    from gsx.pipeline.commands.tune import decode_params

    reason = trial.details.get("reason")
    outcome = reason if trial.score is None else f"ood_val {trial.score:.2f}"
    best_so_far = "" if best is None else f"  (best {best.score:.2f}, trial {best.number})"
    params = _format_params(decode_params(trial.params))
    notify(f"trial {trial.number:>3}: {outcome}{best_so_far}  {params}")


def _ignore_trial(trial: FinishedTrial, best: FinishedTrial | None) -> None:
    """Print nothing about a trial."""


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


def _format_params(params: dict[str, Any]) -> str:
    return " ".join(
        f"{name.partition('.')[2]}={'..'.join(map(str, v)) if isinstance(v, list) else v}"
        for name, v in params.items()
    )


def _print_plan(
    request: TuningRequest | None,
    values: SearchValues,
    status: SearchStatus,
    trials: int,
    *,
    as_json: bool,
) -> None:
    """Print the values to try and the number of finished trials."""
    from gsx.pipeline.commands.tune import MAX_COUNTED

    document = {
        "source": None if request is None else request.source_key,
        "study": None if status.study is None else str(status.study),
        "trials": trials,
        "done": status.finished,
        "choices": status.combinations,
        "values": {name: list(listed) for name, listed in values.items()},
    }
    if as_json:
        print_json(document)
        return
    rows = [
        (name, ", ".join(json.dumps(value) for value in listed)) for name, listed in values.items()
    ]
    echo(*format_table(rows, ("OPTION", "VALUES")))
    combinations = status.combinations
    count = f"{combinations:,}" if combinations < MAX_COUNTED else f"{MAX_COUNTED:,} or more"
    echo(f"{count} combinations; {status.finished} of {trials} trials finished")
    study = status.study
    echo("study: " + (str(study) if study else "created when the source corpus is prepared"))
