"""`gsx compare`: compare two corpora by training on both, or two methods of result files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import (
    device_option,
    json_option,
    quiet_option,
    seed_option_with_default,
    store_option,
)
from gsx.cli.output import (
    command_line,
    echo,
    format_score,
    format_table,
    notify,
    print_json,
    progress_bar,
)
from gsx.cli.resolve_corpus import resolve_corpus
from gsx.cli.train_options import TrainCommand, precision_option, training_options
from gsx.errors import UsageError

if TYPE_CHECKING:
    from gsx.pipeline.compare import CompareRequest, CorpusComparison, PairedModels
    from gsx.stages.train.paired_comparison import Comparison
    from gsx.storage.artifacts.store import Store

SPLITS = ("id_val", "id_test", "ood_val", "ood_test")
SIGNIFICANT = 0.05
"""Largest p value of a difference that is called better or worse."""
OF_METHODS = ("split", "store", "as_json", "quiet")
"""Options that apply to result files."""


class CompareCommand(TrainCommand):
    """Command with the options of algorithms after its own."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the argument, the options, then those of algorithms and the help option."""
        *own, help_option = click.Command.get_params(self, ctx)
        return [*own, *self.algorithm_options, help_option]


@click.command(cls=CompareCommand, short_help="Compare training with and without a corpus.")
@click.argument("names", metavar="CORPUS [BASELINE] | RESULTS METHOD BASELINE", nargs=-1)
@click.option(
    "--split",
    type=click.Choice(SPLITS),
    help="Split to compare on.  [default: id_test and ood_test; result files: ood_test]",
)
@click.option("--seeds", type=int, default=5, show_default=True, help="Models to train per corpus.")
@click.option(
    "--equal-epochs",
    is_flag=True,
    help="Train for equally many epochs, not gradient steps, on both corpora.",
)
@click.option(
    "--results",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Also write result files here, for `gsx table`.",
)
@click.option(
    "--method",
    metavar="NAME",
    default="corpus",
    show_default=True,
    help="Name of CORPUS in result files; the other side is `baseline`.",
)
@training_options
@seed_option_with_default
@precision_option
@device_option
@store_option
@quiet_option
@json_option
@click.pass_context
def compare(context: click.Context, /, names: tuple[str, ...], **options: Any) -> None:  # noqa: ANN401
    """Answer whether a corpus helps: train with and without it, and compare.

    `gsx compare CORPUS` trains on an augmented corpus and on its source graphs alone; with
    BASELINE, on both corpora. Models are paired by seed and are trained for the same number of
    gradient steps. The gain is the difference of the mean scores in the direction that is better,
    in distribution (id_test) and out of distribution (ood_test). An interrupted comparison resumes.

    `gsx compare RESULTS METHOD BASELINE` compares two methods on every dataset of the result files
    in RESULTS, with p values that are corrected for the number of datasets (Holm). Models and
    corpora must be in the store.

    All 95 % intervals are from a bootstrap over seeds and over test graphs.
    """
    from gsx.storage.artifacts.store import Store

    store = Store.at(options["store"])
    if len(names) == 3:
        _reject_training_options(context)
        _compare_methods(names, options, store)
    elif len(names) in (1, 2):
        _compare_corpora(names, options, store)
    else:
        raise UsageError(
            f"gsx compare takes CORPUS, CORPUS BASELINE, or RESULTS METHOD BASELINE; got "
            f"{len(names)} arguments."
        )


def _reject_training_options(context: click.Context) -> None:
    """Raise UsageError for an option that applies to training, but models exist already."""
    for name in context.params:
        source = context.get_parameter_source(name)
        given = source is click.core.ParameterSource.COMMANDLINE
        if given and name not in (*OF_METHODS, "names"):
            raise UsageError(
                f"--{name.replace('_', '-')} applies to the comparison of corpora; the models of "
                "result files are trained already. Leave it out."
            )


def _compare_methods(names: tuple[str, ...], options: dict[str, Any], store: Store) -> None:
    from gsx.stages.nn.training_loop import one_thread
    from gsx.stages.train.metrics import arrow
    from gsx.stages.train.paired_comparison import compare_methods

    results, method, baseline = names
    split = options["split"] or "ood_test"
    with one_thread():
        rows = compare_methods(
            Path(results), method, baseline, split, lambda key, kind: store.resolve(key, kind=kind)
        )
    if options["as_json"]:
        comparisons = [dataclasses.asdict(row) for row in rows]
        described = {"method": method, "baseline": baseline, "split": split}
        print_json({**described, "comparisons": comparisons})
        return
    lines = [
        (
            row.dataset,
            f"{row.metric} {arrow(row.metric)}",
            row.seeds,
            format_score(row.method),
            format_score(row.baseline),
            f"{row.difference:+.2f}",
            f"{row.low:+.2f} to {row.high:+.2f}",
            f"{row.p:.3f}",
            f"{row.p_holm:.3f}",
        )
        for row in rows
    ]
    headers = ("DATASET", "METRIC", "SEEDS", method.upper(), baseline.upper())
    echo(*format_table(lines, (*headers, "DIFFERENCE", "95 %", "P", "P (HOLM)")))


def _compare_corpora(names: tuple[str, ...], options: dict[str, Any], store: Store) -> None:
    from gsx.pipeline.compare import compare_corpora

    quiet, as_json = options["quiet"], options["as_json"]
    request = _request(names, options, store)
    comparison = compare_corpora(
        request,
        store,
        open_progress=lambda name: progress_bar(name, quiet=quiet or as_json),
        notify=(lambda _: None) if quiet else notify,
        on_pair=(lambda _: None) if quiet else _print_pair,
    )
    written = _write_results(comparison, options)
    if as_json:
        print_json({**_comparison_json(comparison, request), "results": written})
        return
    echo(*_format_comparison(comparison, one_corpus=request.baseline is None))
    if written and not quiet:
        echo(f"written: {len(written)} result files in {options['results']}")


def _request(names: tuple[str, ...], options: dict[str, Any], store: Store) -> CompareRequest:
    from gsx.pipeline.compare import CompareRequest
    from gsx.stages.train.data import TEST
    from gsx.stages.train.presets import options_for
    from gsx.storage.corpora.corpus import Corpus

    if options["steps"] is not None and (options["epochs"] is not None or options["equal_epochs"]):
        raise UsageError("--steps excludes --epochs and --equal-epochs; give one of them")
    artifacts = [resolve_corpus(store, name) for name in names]
    own = ("store", "quiet", "as_json", "seeds", "seed", "split", "equal_epochs", "results",
           "method", "preset")  # fmt: skip
    training = {name: value for name, value in options.items() if name not in own}
    return CompareRequest(
        corpus=artifacts[0],
        baseline=artifacts[1] if len(artifacts) == 2 else None,
        options=options_for(options["preset"], training, Corpus(artifacts[0]).info),
        seeds=options["seeds"],
        first_seed=options["seed"],
        splits=TEST if options["split"] is None else (options["split"],),
        equal_epochs=options["equal_epochs"],
    )


def _print_pair(pair: PairedModels) -> None:
    scores = ", ".join(
        f"{split} {format_score(value)} (baseline {format_score(pair.baseline_scores[split])})"
        for split, value in pair.scores.items()
    )
    notify(f"seed {pair.seed}: {scores}")


def _write_results(comparison: CorpusComparison, options: dict[str, Any]) -> list[str]:
    """Write a result file of every run and return the paths."""
    from gsx.stages.train.result_file import write_result

    if options["results"] is None:
        return []
    methods = (options["method"], "baseline")
    return [
        str(write_result(options["results"], method, options["preset"], built, command_line()))
        for pair in comparison.builds
        for method, built in zip(methods, pair, strict=True)
    ]


def _comparison_json(comparison: CorpusComparison, request: CompareRequest) -> dict[str, Any]:
    from gsx.stages.train.metrics import lower_is_better
    from gsx.storage.corpora.portable_copies import identity

    baseline = request.baseline
    return {
        "dataset": comparison.name,
        "metric": comparison.metric,
        "higher_is_better": not lower_is_better(comparison.metric),
        "corpus_key": identity(request.corpus).key,
        "baseline": "source graphs" if baseline is None else identity(baseline).key,
        "steps": comparison.steps,
        "splits": {
            split: {
                "items": comparison.items[split],
                "corpus": row.method,
                "baseline": row.baseline,
                **dict(zip(("gain", "low", "high"), row.gain, strict=True)),
                "p": row.p,
            }
            for split, row in comparison.splits.items()
        },
        "runs": [dataclasses.asdict(run) for run in comparison.runs],
    }


def _format_comparison(comparison: CorpusComparison, *, one_corpus: bool) -> list[str]:
    from gsx.stages.train.metrics import arrow

    digits = 3 if comparison.metric in ("mcc", "rmse") else 2
    lines = [
        (
            split,
            comparison.items[split],
            f"{row.method:.{digits}f}",
            f"{row.baseline:.{digits}f}",
            f"{row.gain[0]:+.{digits}f}",
            " to ".join(f"{value:+.{digits}f}" for value in row.gain[1:]),
            f"{row.p:.3f}",
        )
        for split, row in comparison.splits.items()
    ]
    sides = ("AUGMENTED", "SOURCE") if one_corpus else ("CORPUS", "BASELINE")
    steps = "" if comparison.steps is None else f", {comparison.steps:,} gradient steps per run"
    head = (
        f"{comparison.name}: {comparison.metric} {arrow(comparison.metric)}, "
        f"{len(comparison.runs)} seed{'s' if len(comparison.runs) > 1 else ''}{steps}"
    )
    table = format_table(lines, ("SPLIT", "ITEMS", *sides, "GAIN", "95 %", "P"))
    return [head, *table, *(_verdict(split, row) for split, row in comparison.splits.items())]


def _verdict(split: str, row: Comparison) -> str:
    _, low, high = row.gain
    if low > 0 and row.p < SIGNIFICANT:
        return f"{split}: better"
    if high < 0 and row.p < SIGNIFICANT:
        return f"{split}: worse"
    return f"{split}: no clear difference"
