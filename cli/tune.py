"""The command that tunes options of generation and training."""

from __future__ import annotations

import itertools
import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.learn import PRESETS, train_options
from gsx.cli.options import (
    Asked,
    crew_options,
    device_option,
    dry_run_option,
    json_option,
    quiet_option,
    raw_option,
    store_option,
)
from gsx.cli.output import print_json, progress_bar, say, score_text, table

if TYPE_CHECKING:
    from gsx.pipeline.tuning.study import Tried
    from gsx.pipeline.tuning.tune import Question, Tuned
    from gsx.storage.artifacts.store import Artifact, Store

METHODS = ("g-splice", "featx", "g-splice+featx", "drop-node", "drop-edge", "mask-feature",
           "g-mixup", "none")  # fmt: skip
MANY = 100_000
ROUND = 4
"""Choices proposed together where there are workers, however many."""


@click.command(short_help="Search options of methods and training.")
@click.argument("source")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="g-splice",
    show_default=True,
    metavar="METHOD",
    help=f"What makes the corpus: {', '.join(METHODS[:-1])}; none learns from SOURCE.",
)
@click.option(
    "--trials", type=int, default=20, show_default=True, help="Choices to try, earlier ones too."
)
@click.option(
    "--seeds", type=int, default=1, show_default=True, help="Trainings per trial; the mean decides."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Root of all random streams.")
@click.option(
    "--round",
    "at_once",
    type=int,
    metavar="N",
    help="Choices proposed together, which workers try at once.  [default: 1; with workers 4]",
)
@click.option(
    "--space",
    type=click.Path(path_type=Path),
    metavar="FILE.toml",
    help="Values to choose from.  [default: the paper's for the method]",
)
@click.option(
    "--preset",
    type=click.Choice(list(PRESETS)),
    default="default",
    show_default=True,
    help="How long pretraining and training take.",
)
@click.option("--epochs", type=int, help="Passes of training over the corpus.")
@click.option("--width", type=int, help="Units of every layer of the classifier.")
@click.option("--num-graphs", type=int, help="Graphs of a dataset that is prepared first.")
@raw_option
@device_option
@crew_options
@dry_run_option
@quiet_option
@json_option
@store_option
def tune(
    source: str,
    *,
    trials: int,
    at_once: int | None,
    num_graphs: int | None,
    raw: str | None,
    asked: Asked,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    store: str | None,
    **how: Any,  # noqa: ANN401
) -> None:
    """Search what makes classifiers best out of distribution.

    SOURCE is the name of a dataset, or a corpus. Every trial makes a corpus and trains on it; the
    best by OOD validation is kept, and test is looked at once, of that one. The same command
    goes on where an earlier one stopped. What is tried depends on --round, and never on how many
    workers there are.
    """
    from gsx.errors import UsageError
    from gsx.storage.artifacts.store import Store

    how["round"] = at_once if at_once is not None else ROUND if asked.elsewhere else 1
    for name, value in (
        ("--trials", trials), ("--seeds", how["seeds"]), ("--round", how["round"]),
    ):  # fmt: skip
        if value < 1:
            raise UsageError(f"{name} must be at least 1; got {value}")
    place = Store.at(store)
    found = _source(source, {"num_graphs": num_graphs, "raw": raw}, place, dry_run=dry_run)
    values = _values(how["space"], how["method"])
    if dry_run:
        question = None if found is None else _question(found, values, how)
        _show(question, values, place, trials, as_json=as_json)
        return
    assert found is not None
    question = _question(found, values, how)
    tuned = _run(question, found, place, trials, asked, quiet=quiet or as_json)
    document = _document(question, tuned)
    if as_json:
        print_json(document)
    elif not quiet:
        click.echo(_text(document))


def _source(
    source: str, options: dict[str, Any], store: Store, *, dry_run: bool
) -> Artifact | None:
    """Return the source corpus, prepared where it is the name of a dataset; None if not yet."""
    from gsx.cli.resolve_corpus import corpus_named
    from gsx.errors import UsageError
    from gsx.pipeline.plan import Step, identity_of
    from gsx.pipeline.recipe import parse_config
    from gsx.pipeline.runner import run_plan
    from gsx.pipeline.stage_order import stage_named
    from gsx.stages.prepare.stage import FAMILIES

    if not any(source in (*family.names, *family.aliases) for family in FAMILIES):
        if options["num_graphs"] is not None:
            raise UsageError("--num-graphs is for a dataset that is prepared first, not a corpus")
        return corpus_named(store, source)
    given = {name: value for name, value in options.items() if value is not None}
    config = parse_config("prepare", {"dataset": source, **given}, "gsx prepare")
    step = Step(stage_named("prepare"), config, {})
    if dry_run:
        return store.find("corpus", identity_of(step, {}).key)
    return next(built.artifact for _, built in run_plan((step,), store, say=say))


def _values(path: Path | None, method: str) -> dict[str, tuple[Any, ...]]:
    from gsx.pipeline.tuning import search_presets as methods
    from gsx.pipeline.tuning.search_space import read_space

    own = methods.METHODS[method].values
    return dict(own if path is None else read_space(path, method).values)


def _question(
    source: Artifact, values: dict[str, tuple[Any, ...]], how: dict[str, Any]
) -> Question:
    from gsx.cli.generate_plan import QUICK
    from gsx.pipeline.tuning import search_presets as methods
    from gsx.pipeline.tuning.search_space import Space
    from gsx.pipeline.tuning.trial import Common
    from gsx.pipeline.tuning.tune import Question, check_source
    from gsx.storage.corpora.corpus import Corpus

    corpus = Corpus(source)
    splits = corpus.splits if corpus.info.level == "graph" else corpus.nodes
    check_source(corpus.info, splits, how["method"])
    method = methods.METHODS[how["method"]]
    columns = {column.name for column in corpus.info.columns}
    given = {name: how[name] for name in ("epochs", "width", "device")} | {"precision": "full"}
    quick = QUICK if how["preset"] == "quick" else {}
    fixed = {
        name: {**quick.get(name, {}), "device": how["device"]} for name in ("extract", "bridge")
    }
    if method.maker is not None and method.fixed:
        fixed[method.maker] = dict(method.fixed)
    fixed["train"] = train_options(
        how["preset"], given, molecules="smiles" in columns, nodes=corpus.info.level == "node"
    )
    return Question(
        source_key=source.key,
        space=Space(values, edge_attributes="edge_attr" in columns),
        common=Common(maker=method.maker, fixed=fixed, seeds=how["seeds"], seed=how["seed"]),
        round=how["round"],
    )


def _run(
    question: Question, source: Artifact, store: Store, trials: int, asked: Asked, *, quiet: bool
) -> Tuned:
    from gsx.pipeline.tuning.tune import tune as search
    from gsx.storage.corpora.corpus import Corpus

    def report(tried: Tried, best: Tried | None) -> None:
        if quiet:
            return
        what = tried.facts.get("reason") if tried.score is None else f"ood_val {tried.score:.2f}"
        lead = "" if best is None else f"  (best {best.score:.2f}, trial {best.number})"
        say(f"trial {tried.number:>3}: {what}{lead}  {_short(tried.chosen)}")

    speak = (lambda _: None) if quiet else say
    return search(
        question,
        source,
        store,
        trials=trials,
        larger_is_better=Corpus(source).info.metric != "rmse",
        watch=lambda name: progress_bar(name, quiet=quiet),
        say=speak,
        report=report,
        hire=asked.hire(speak),
    )


def _document(question: Question, tuned: Tuned) -> dict[str, Any]:
    """Return what scripts are told: test scores of the best trial, and of no other."""
    from gsx.pipeline.tuning.search_space import SECTIONS, options_of
    from gsx.stages.train.confidence_intervals import t_interval

    chosen = [model.manifest.summary["quality"] for model in tuned.made.models]
    splits = ("ood_val", "ood_test", "id_val", "id_test")
    at_best = [quality["selection"]["ood_val"] for quality in chosen]
    scores = {
        split: {
            "mean": statistics.fmean(each[split] for each in at_best),
            "interval": t_interval([each[split] for each in at_best]),
        }
        for split in splits
        if all(split in each for each in at_best)
    }
    best = tuned.best
    return {
        "study": str(tuned.path),
        "picked_by": "ood_val",
        "metric": chosen[0]["metric"],
        "seeds": question.common.seeds,
        "trials": [
            {
                "trial": each.number,
                "ood_val": each.score,
                "options": _plain(each.chosen),
                **each.facts,
            }
            for each in tuned.trials
        ],
        "best": {
            "trial": best.number,
            "options": {
                stage: options for stage in SECTIONS if (options := options_of(best.chosen, stage))
            },
            "corpus_key": tuned.made.corpus.key,
            "model_keys": [model.key for model in tuned.made.models],
            "scores": scores,
        },
    }


def _text(document: dict[str, Any]) -> str:
    rows = [
        (each["trial"], score_text(each["ood_val"]), _short_options(each["options"]))
        for each in sorted(document["trials"], key=lambda each: each["trial"])
    ]
    best = document["best"]
    scores = ", ".join(f"{split} {row['mean']:.2f}" for split, row in best["scores"].items())
    lines = [
        table(rows, ("TRIAL", "OOD_VAL", "OPTIONS")),
        "",
        f"picked by ood_val: trial {best['trial']}, over {document['seeds']} seed(s)",
        f"{document['metric']}: {scores}",
        f"corpus {best['corpus_key'][:12]}, models "
        + ", ".join(key[:12] for key in best["model_keys"]),
        f"study {document['study']}",
    ]
    return "\n".join(lines)


def _plain(chosen: dict[str, str]) -> dict[str, Any]:
    return {name: json.loads(label) for name, label in chosen.items()}


def _short(chosen: dict[str, str]) -> str:
    return _short_options(_plain(chosen))


def _short_options(options: dict[str, Any]) -> str:
    return " ".join(
        f"{name.partition('.')[2]}={'..'.join(map(str, v)) if isinstance(v, list) else v}"
        for name, v in options.items()
    )


def _show(
    question: Question | None,
    values: dict[str, tuple[Any, ...]],
    store: Store,
    trials: int,
    *,
    as_json: bool,
) -> None:
    """Say what would be tried, and how much of it is done."""
    from gsx.pipeline.tuning.search_space import Space
    from gsx.pipeline.tuning.study import Study

    space = Space(values) if question is None else question.space
    count = sum(1 for _ in itertools.islice(space.all_choices(), MANY))
    path = None if question is None else question.study_path(store)
    done = 0
    if path is not None and question is not None and path.is_file():
        done = len(Study(path, space, seed=question.common.seed, larger_is_better=True).tried())
    document = {
        "source": None if question is None else question.source_key,
        "study": None if path is None else str(path),
        "trials": trials,
        "done": done,
        "choices": count,
        "values": {name: list(each) for name, each in values.items()},
    }
    if as_json:
        print_json(document)
        return
    rows = [(n, ", ".join(json.dumps(v) for v in each)) for n, each in values.items()]
    click.echo(table(rows, ("OPTION", "VALUES")))
    many = f"{count:,}" if count < MANY else f"{MANY:,} or more"
    click.echo(f"{many} choices; {done} of {trials} trials done")
    click.echo("study: " + (str(path) if path else "named once the source corpus is prepared"))
