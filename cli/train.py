"""`gsx train`: train a classifier."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import (
    OptionWithAliases,
    RunOptions,
    device_option,
    run_options,
    seed_option_with_default,
)
from gsx.cli.output import SELECTION_RULES, artifact_json, format_score, format_table, print_json
from gsx.cli.resolve_corpus import resolve_corpus
from gsx.cli.run_plan import run_single_stage
from gsx.cli.train_options import PRESETS, train_options

if TYPE_CHECKING:
    from gsx.storage.artifacts.publish import BuildResult


class TrainCommand(click.Command):
    """Command with the hyper-parameters of all algorithms as options.

    The options are created on first use, so that other commands start without importing the
    algorithms.
    """

    @functools.cached_property
    def _algorithm_options(self) -> list[click.Parameter]:
        from gsx.stages.train.algorithms import ALGORITHMS
        from gsx.stages.train.algorithms.options import OPTIONS

        names = [algorithm.name for algorithm in ALGORITHMS]
        algorithm = OptionWithAliases(
            ["--algorithm", "--learner", "learner"],
            type=click.Choice(names),
            metavar="NAME",
            help=f"Training algorithm: {', '.join(names)} (alias: --learner).  [default: erm]",
        )
        hyperparameters = [
            click.Option(["--" + option.name.replace("_", "-")], type=option.type, help=option.help)
            for option in OPTIONS.values()
        ]
        return [algorithm, *hyperparameters]

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the argument, the options of algorithms, then all other options."""
        argument, *options = super().get_params(ctx)
        return [argument, *self._algorithm_options, *options]


@click.command(cls=TrainCommand, short_help="Train a classifier on a corpus.")
@click.argument("corpus")
@click.option(
    "--preset",
    type=click.Choice(list(PRESETS)),
    default="default",
    show_default=True,
    help="Values of width, epochs, learning rate and dropout; `paper` needs a GPU.",
)
@click.option(
    "--backbone",
    type=click.Choice(["gin", "vgin", "gcn"]),
    help="Graph neural network.  [default: gcn for nodes, vgin for molecules, else gin]",
)
@click.option("--epochs", type=int, help="Epochs over the training graphs.")
@click.option("--width", type=int, help="Hidden units per layer.")
@click.option("--layers", type=int, help="Message-passing layers.")
@click.option(
    "--batch-size", type=int, help="Graphs per batch; for nodes, random walks per sample."
)
@click.option("--samples", type=int, help="Nodes: batches per epoch.  [default: 10]")
@click.option("--learning-rate", type=float, help="Initial learning rate.")
@click.option("--dropout", type=float, help="Dropout probability.")
@click.option(
    "--average",
    type=float,
    help="Decay of an exponential moving average of weights.  [default: off]",
)
@click.option("--env-balanced", is_flag=True, help="Sample all environments equally often.")
@click.option("--source-only", is_flag=True, help="Baseline: train without augmented graphs.")
@click.option(
    "--origin",
    "origins",
    multiple=True,
    help="Train on graphs of this origin only; repeatable.",
)
@seed_option_with_default
@click.option(
    "--precision",
    type=click.Choice(["full", "bf16", "auto"]),
    default="full",
    show_default=True,
    help="bf16: 16-bit matrix products; `auto` uses them on GPUs that support them.",
)
@device_option
@click.option("--results", metavar="DIR", type=click.Path(), help="Also write a result file here.")
@click.option("--method", metavar="NAME", help="Name of the method in the result file.")
@run_options
def train(
    corpus: str,
    preset: str,
    results: str | None,
    method: str | None,
    run_options: RunOptions,
    **options: Any,  # noqa: ANN401
) -> None:
    """Train a classifier on CORPUS and score it on every held-out split.

    Prints the scores of the best epoch on OOD validation, of the best epoch on ID validation and of
    the last epoch. An interrupted run resumes after its last finished epoch.
    """
    from gsx.errors import UsageError
    from gsx.storage.artifacts.store import Store

    if (results is None) != (method is None):
        raise UsageError("--results DIR and --method NAME belong together; give both or neither")
    artifact = resolve_corpus(Store.at(run_options.store), corpus)
    corpus_stage = artifact.manifest.stage
    source = corpus_stage if corpus_stage in ("generate", "augment") else "prepare"
    stage_options = train_options(preset, options, **_corpus_properties(artifact))
    built = run_single_stage(
        "train",
        {**stage_options, "source": source},
        {source: artifact},
        run_options,
        print_result=False,
    )
    if built is None:
        return
    document = {**artifact_json(built), **_scores(built)}
    if results is not None and method is not None:
        path = _write_result(Path(results), method, preset, built)
        document["result"] = str(path)
    if run_options.as_json:
        print_json(document)
    elif not run_options.quiet:
        click.echo(_format_scores(_scores(built)))
        if "result" in document:
            click.echo(f"written: {document['result']}")


def _corpus_properties(artifact: Any) -> dict[str, bool]:  # noqa: ANN401
    from gsx.storage.corpora.corpus import Corpus

    info = Corpus(artifact).info
    columns = {column.name for column in info.columns}
    return {"molecules": "smiles" in columns, "nodes": info.level == "node"}


def _scores(built: BuildResult) -> dict[str, Any]:
    scores: dict[str, Any] = built.artifact.manifest.summary["quality"]
    return scores


def _format_scores(scores: dict[str, Any]) -> str:
    splits = ("id_val", "id_test", "ood_val", "ood_test")
    rows = [
        (description, row["epoch"], *(format_score(row.get(split)) for split in splits))
        for rule, description in SELECTION_RULES.items()
        if (row := scores["selection"].get(rule)) is not None
    ]
    headers = (f"{scores['metric'].upper()} AT", "EPOCH", *(split.upper() for split in splits))
    return format_table(rows, headers)


def _write_result(folder: Path, method: str, preset: str, built: BuildResult) -> Path:
    """Write the result file of a training run, which `gsx table` reads, and return its path."""
    manifest = built.artifact.manifest
    scores = _scores(built)
    rule = next(rule for rule in SELECTION_RULES if rule in scores["selection"])
    selected = scores["selection"][rule]
    document = {
        "dataset": manifest.summary["name"],
        "method": method,
        "seed": manifest.config["seed"],
        "metric": scores["metric"],
        "ood_val": selected.get("ood_val"),
        "ood_test": selected.get("ood_test"),
        "id_test": selected.get("id_test"),
        "selection": rule,
        "preset": preset,
        "epochs": manifest.config["epochs"],
        "corpus_key": manifest.parents[0].key,
        "model_key": manifest.key,
        "command": _command_line(),
        "commit": _git_commit(),
        "seconds": _training_seconds(built),
        "scores": scores["selection"],
        "config": manifest.config,
    }
    path = folder / str(document["dataset"]) / f"{method}-{document['seed']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return path


def _training_seconds(built: BuildResult) -> float:
    """Return the duration of training, also if an earlier run has trained the model."""
    from gsx.storage.artifacts.manifest import RUN_RECORD

    if not built.reused:
        return round(built.seconds, 1)
    record = json.loads(built.artifact.location.read_bytes(RUN_RECORD, limit=1 << 20))
    return round(float(record["seconds"]), 1)


def _command_line() -> str:
    import shlex

    return shlex.join(["gsx", *sys.argv[1:]])


def _git_commit() -> str | None:
    """Return the commit of the checkout that gsx runs from; None if it is installed."""
    import gsx

    folder = Path(gsx.__file__).resolve().parent
    try:
        completed = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return completed.stdout.strip() or None if completed.returncode == 0 else None
