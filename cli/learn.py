"""The command that trains classifiers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import Making, device_option, making_options
from gsx.cli.output import RULES, built_object, print_json, score_text, table
from gsx.cli.resolve_corpus import corpus_named
from gsx.cli.run_plan import run_stage
from gsx.stages.train.algorithms.catalog import KINDS

if TYPE_CHECKING:
    from gsx.storage.artifacts.publish import Built


PRESETS = ("quick", "default", "paper")


@click.command(short_help="Train a classifier on a corpus.")
@click.argument("corpus")
@click.option(
    "--learner",
    type=click.Choice(list(KINDS)),
    metavar="NAME",
    help=f"What is made small: {', '.join(KINDS)}.  [default: erm]",
)
@click.option(
    "--penalty",
    type=float,
    help="Weight of the learner's penalty.  [default: 1; groupdro and gil 0.01, lisa-subgraph "
    "0.1, srgnn 1e-5]",
)
@click.option(
    "--causal-ratio",
    type=float,
    help="Of dir, gil, ciga: share of edges that is selected.  [default: dir 0.4, else 0.6]",
)
@click.option("--hinge", type=float, help="Of ciga: weight of the rest; 0 is v1.  [default: 1]")
@click.option(
    "--inferred-envs", type=int, help="Of gil: environments that are inferred.  [default: 3]"
)
@click.option(
    "--generators", type=int, help="Of lisa-subgraph: generators of subgraphs.  [default: 3]"
)
@click.option(
    "--kl-weight", type=float, help="Of lisa-subgraph: weight of what is kept.  [default: 0.1]"
)
@click.option("--ascent-step", type=float, help="Of flag: step of inputs.  [default: 0.001]")
@click.option("--ascents", type=int, help="Of flag: looks at every batch.  [default: 3]")
@click.option(
    "--mix-alpha", type=float, help="Of mixup and lisa: Beta's shape of shares.  [default: 1]"
)
@click.option("--contexts", type=int, help="Of eerm: generators of edges.  [default: 3]")
@click.option("--context-edits", type=int, help="Of eerm: edits per node.  [default: 5]")
@click.option(
    "--context-steps", type=int, help="Of eerm: generators' steps per step.  [default: 1]"
)
@click.option("--context-rate", type=float, help="Of eerm: generators' step.  [default: 0.001]")
@click.option(
    "--preset",
    type=click.Choice(list(PRESETS)),
    default="default",
    show_default=True,
    help="Width, epochs, learning rate and dropout; `paper` is for GPUs.",
)
@click.option(
    "--backbone",
    type=click.Choice(["gin", "vgin", "gcn"]),
    help="The network.  [default: gcn for nodes, vgin for molecules, else gin]",
)
@click.option("--epochs", type=int, help="Passes over the training graphs.")
@click.option("--width", type=int, help="Units of every layer.")
@click.option("--layers", type=int, help="Rounds of messages.")
@click.option("--batch-size", type=int, help="Graphs per step; of nodes, walks per sample.")
@click.option("--samples", type=int, help="Of nodes: steps per epoch.  [default: 10]")
@click.option("--learning-rate", type=float, help="Step size at the start.")
@click.option("--dropout", type=float, help="Share of values dropped.")
@click.option("--average", type=float, help="Decay of a running mean of weights.  [default: off]")
@click.option("--env-balanced", is_flag=True, help="Draw every environment equally often.")
@click.option("--source-only", is_flag=True, help="Leave augmented graphs out: the baseline.")
@click.option("--origin", "origins", multiple=True, help="Use graphs of this origin; repeatable.")
@click.option("--seed", type=int, default=0, show_default=True, help="Root of all random streams.")
@click.option(
    "--precision",
    type=click.Choice(["full", "bf16", "auto"]),
    default="full",
    show_default=True,
    help="bf16 multiplies in 16 bits; `auto` does so on GPUs that can, never on a CPU.",
)
@device_option
@click.option("--results", metavar="DIR", type=click.Path(), help="Also write a result file here.")
@click.option("--method", metavar="NAME", help="Name of the method in the result file.")
@making_options
def train(
    corpus: str,
    preset: str,
    results: str | None,
    method: str | None,
    making: Making,
    **given: Any,  # noqa: ANN401
) -> None:
    """Train a classifier on CORPUS and score it on every held-out split.

    Scores are those of the best epoch by OOD validation, of the best by ID validation, and of the
    last. A run that was stopped goes on after its last finished epoch.
    """
    from gsx.errors import UsageError
    from gsx.storage.artifacts.store import Store

    if (results is None) != (method is None):
        raise UsageError("give --results DIR and --method NAME together")
    artifact = corpus_named(Store.at(making.store), corpus)
    made_by = artifact.manifest.stage
    source = made_by if made_by in ("generate", "augment") else "prepare"
    options = train_options(preset, given, **_kind(artifact))
    built = run_stage(
        "train", {**options, "source": source}, {source: artifact}, making, announce=False
    )
    if built is None:
        return
    document = {**built_object(built), **_scores(built)}
    if results is not None and method is not None:
        path = _write_result(Path(results), method, preset, built)
        document["result"] = str(path)
    if making.as_json:
        print_json(document)
    elif not making.quiet:
        click.echo(_scores_text(_scores(built)))
        if "result" in document:
            click.echo(f"written: {document['result']}")


def _kind(artifact: Any) -> dict[str, bool]:  # noqa: ANN401
    from gsx.storage.corpora.corpus import Corpus

    info = Corpus(artifact).info
    names = {column.name for column in info.columns}
    return {"molecules": "smiles" in names, "nodes": info.level == "node"}


def train_options(
    preset: str, given: dict[str, Any], *, molecules: bool, nodes: bool = False
) -> dict[str, Any]:
    """Return the preset with what the command line says on top."""
    import msgspec

    from gsx.stages.train.stage import TrainConfig

    presets = dict(zip(PRESETS, (TrainConfig.quick, TrainConfig, TrainConfig.paper), strict=True))
    chosen = TrainConfig.of_nodes(preset) if nodes else presets[preset]()
    options: dict[str, Any] = msgspec.to_builtins(chosen)
    if not nodes:
        options["backbone"] = "vgin" if molecules else "gin"
    given = {**given, "precision": _precision(given["precision"], given["device"])}
    flags = {"source_only": "augmented", "env_balanced": "env_balanced"}
    for name, value in given.items():
        if name == "origins":
            options[name] = value or None
        elif name in flags:
            options[flags[name]] = value if name == "env_balanced" else not value
        elif value is not None:
            options[name] = value
    return options


def _precision(precision: str, device: Any) -> str:  # noqa: ANN401
    """Return the precision to train with; ``auto`` is settled here, for the key says which."""
    if precision != "auto":
        return precision
    from gsx.stages.nn.device import device_named, fitting_precision

    return fitting_precision(device_named(device))


def _scores(built: Built) -> dict[str, Any]:
    scores: dict[str, Any] = built.artifact.manifest.summary["quality"]
    return scores


def _scores_text(scores: dict[str, Any]) -> str:
    splits = ("id_val", "id_test", "ood_val", "ood_test")
    rows = [
        (what, found["epoch"], *(score_text(found.get(split)) for split in splits))
        for rule, what in RULES.items()
        if (found := scores["selection"].get(rule)) is not None
    ]
    headers = (f"{scores['metric'].upper()} AT", "EPOCH", *(split.upper() for split in splits))
    return table(rows, headers)


def _write_result(folder: Path, method: str, preset: str, built: Built) -> Path:
    """Write one training run as scripts and `gsx table` read it."""
    manifest = built.artifact.manifest
    scores = _scores(built)
    rule = next(rule for rule in RULES if rule in scores["selection"])
    chosen = scores["selection"][rule]
    document = {
        "dataset": manifest.summary["name"],
        "method": method,
        "seed": manifest.config["seed"],
        "metric": scores["metric"],
        "ood_val": chosen.get("ood_val"),
        "ood_test": chosen.get("ood_test"),
        "id_test": chosen.get("id_test"),
        "selection": rule,
        "preset": preset,
        "epochs": manifest.config["epochs"],
        "corpus_key": manifest.parents[0].key,
        "model_key": manifest.key,
        "command": _command(),
        "commit": _commit(),
        "seconds": _seconds(built),
        "scores": scores["selection"],
        "config": manifest.config,
    }
    path = folder / str(document["dataset"]) / f"{method}-{document['seed']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return path


def _seconds(built: Built) -> float:
    """Return how long training took, also where it was done by an earlier run."""
    from gsx.storage.artifacts.manifest import RUN_RECORD

    if not built.reused:
        return round(built.seconds, 1)
    record = json.loads(built.artifact.place.read_bytes(RUN_RECORD, limit=1 << 20))
    return round(float(record["seconds"]), 1)


def _command() -> str:
    import shlex

    return shlex.join(["gsx", *sys.argv[1:]])


def _commit() -> str | None:
    """Return the commit of the checkout gsx runs from; None outside of one."""
    import gsx

    folder = Path(gsx.__file__).resolve().parent
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None
