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
from gsx.cli.train_options import TrainCommand, precision_option, training_options
from gsx.errors import UsageError

if TYPE_CHECKING:
    from gsx.storage.artifacts.store import Store

SPLITS = ("id_val", "id_test", "ood_val", "ood_test")
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
    from gsx.pipeline.commands.compare import compare_result_files
    from gsx.stages.train.metrics import arrow

    results, method, baseline = names
    split = options["split"] or "ood_test"
    rows = compare_result_files(Path(results), method, baseline, split, store)
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
    from gsx.pipeline.commands.compare import (
        compare_request,
        comparison_document,
        format_comparison,
        pair_text,
        write_results,
    )
    from gsx.pipeline.compare import compare_corpora

    quiet, as_json = options["quiet"], options["as_json"]
    request = compare_request(names, options, store)
    comparison = compare_corpora(
        request,
        store,
        open_progress=lambda name: progress_bar(name, quiet=quiet or as_json),
        notify=(lambda _: None) if quiet else notify,
        on_pair=lambda pair: None if quiet else notify(pair_text(pair)),
    )
    written = write_results(comparison, options, command_line())
    if as_json:
        print_json({**comparison_document(comparison, request), "results": written})
        return
    echo(*format_comparison(comparison, one_corpus=request.baseline is None))
    if written and not quiet:
        echo(f"written: {len(written)} result files in {options['results']}")
