"""Commands that make corpora, or anything a recipe names: prepare, describe, generate, run."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import (
    Asked,
    Making,
    crew_options,
    making_options,
    out_option,
    portable_option,
    raw_option,
)
from gsx.cli.output import built_line, built_object, print_json, progress_bar, say, table
from gsx.cli.own import own_config, own_options
from gsx.cli.share import portable_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gsx.pipeline.plan import Step
    from gsx.storage.publish import Built
    from gsx.storage.store import Artifact, Store

    HandOut = Callable[[Artifact, Path, Store], Path]
    """Writes an artifact to a directory in another form, and returns where."""

FORMATS = {"parquet": ("parquet",), "zarr": ("zarr",), "both": ("parquet", "zarr")}


@click.command(short_help="Prepare the source corpus of a dataset, or of your own data.")
@click.argument("dataset", required=False)
@click.option("--num-graphs", type=int, help="Graphs of all splits.  [default: as published]")
@click.option("--seed", type=int, default=0, show_default=True, help="Root of all random streams.")
@click.option("--shard-graphs", type=int, help="Graphs per file.  [default: 25000]")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="parquet",
    show_default=True,
    help="How graphs are stored.",
)
@click.option(
    "--envs",
    metavar="K|WORD",
    help="How many environments, or what one is; `infer` groups your own that look alike.  "
    "[default: per dataset]",
)
@click.option(
    "--protocol",
    type=click.Choice(["paper", "mid"]),
    help="dd-size, nci1-size: leave middle sizes out, or validate on them.  [default: mid]",
)
@click.option(
    "--features",
    type=click.Choice(["hashed", "minilm"]),
    help="sst2-length, twitter-length: vectors of words.  [default: hashed]",
)
@own_options
@raw_option
@out_option
@crew_options
@making_options
def prepare(
    dataset: str | None,
    form: str,
    envs: str | None,
    out: str | None,
    asked: Asked,
    making: Making,
    **given: Any,  # noqa: ANN401
) -> None:
    """Prepare the source corpus of DATASET: graphs, labels, splits, environments.

    `gsx datasets` lists the names. Your own data is named instead with --smiles, --tu, --ogb,
    --pyg, --good, or --nodes and --edges. Molecules and images are read by the workers that are
    asked for, else by one process per processor (GSX_WORKERS); other data is quick to read.
    """
    options = {**own_config(dataset, given), "formats": FORMATS[form], "raw": given["raw"]}
    if envs is not None:
        options["environments"] = int(envs) if envs.isdecimal() else envs
    run_stage("prepare", options, {}, making, out, asked=asked)


@click.command(short_help="Describe a corpus and how far its splits shift.")
@click.argument("corpus")
@making_options
def describe(corpus: str, making: Making) -> None:
    """Describe CORPUS: sizes, degrees and labels per split and domain, and how far they shift."""
    from gsx.cli.statistics import show_statistics
    from gsx.storage.store import Store

    artifact = Store.at(making.store).resolve(corpus, kind="corpus")
    built = run_stage("describe", {}, {"prepare": artifact}, making)
    if built is not None and not making.quiet and not making.as_json:
        show_statistics(built)


@click.command(short_help="Generate a corpus: spliced graphs, moved features.")
@click.argument("source")
@click.option(
    "--options",
    "code",
    help="Three bits: pieces alone, pieces with surroundings, whole graphs.  [default: 111]",
)
@click.option(
    "--f", "f", metavar="N|N..M", help="Graphs or surroundings per splice.  [default: 2..4]"
)
@click.option(
    "--ratio", type=float, help="New graphs of each option per training graph.  [default: 1]"
)
@click.option("--count", type=int, help="New graphs of each option, exactly.")
@click.option(
    "--partners",
    type=click.Choice(["any", "same-class", "same-piece"]),
    help="Which graphs meet in a splice.  [default: any]",
)
@click.option("--balanced", is_flag=True, help="Every class leads as many new graphs.")
@click.option(
    "--grow", type=float, help="Grow surroundings to so many largest graphs.  [default: 0, off]"
)
@click.option("--chords", type=float, help="Random edges added per edge.  [default: 0]")
@click.option("--fragments", type=int, help="Cuts of surroundings to splice too.  [default: 0]")
@click.option(
    "--labels",
    type=click.Choice(["average", "any", "all"]),
    help="What whole graphs say together: their mean, yes if any, if all do.  [default: average]",
)
@click.option(
    "--attach",
    type=click.Choice(["tree", "chain", "star"]),
    help="What a component is joined to.  [default: tree]",
)
@click.option(
    "--bridges",
    type=click.Choice(["vae", "diffusion", "random", "none"]),
    help="How components are joined.  [default: vae]",
)
@click.option(
    "--ports",
    type=click.Choice(["any", "own"]),
    help="Where pieces take bridges: anywhere, or where they had them.  [default: any]",
)
@click.option(
    "--bridge-count",
    type=click.Choice(["expected", "sampled"]),
    help="How many bridges a joint gets.  [default: expected]",
)
@click.option("--fixed-attributes", is_flag=True, help="Bridges all have the commonest attributes.")
@click.option("--bridge-nodes", is_flag=True, help="Bridges lead over nodes of their own.")
@click.option("--featx", is_flag=True, help="Move features too; alone unless --options are given.")
@click.option(
    "--featx-features",
    type=click.Choice(["selected", "all"]),
    help="Features to move: those of the mask, or all.  [default: selected]",
)
@click.option(
    "--featx-direction",
    type=click.Choice(["extrapolate", "interpolate"]),
    help="Away from a partner, or towards it.  [default: extrapolate]",
)
@click.option("--featx-shape", type=float, help="Shape a of λ ~ Gamma(a, b).  [default: 2]")
@click.option("--featx-scale", type=float, help="Scale b of λ ~ Gamma(a, b).  [default: 0.5]")
@click.option("--featx-rounds", type=int, help="Times a sample is moved.  [default: 1]")
@click.option("--replicas", type=int, help="Copies of a graph of labelled nodes.  [default: 4]")
@click.option("--mask", "mask_key", metavar="KEY", help="Mask of features to use.")
@click.option("--extractor", metavar="KEY", help="Pieces to use instead of training anew.")
@click.option("--bridge", "bridge_key", metavar="KEY", help="Bridge model to use.")
@click.option("--augmented-only", is_flag=True, help="Leave the source graphs out.")
@click.option("--seed", type=int, help="Root of all random streams.  [default: 0]")
@click.option("--num-graphs", type=int, help="Graphs of a dataset that is prepared first.")
@click.option(
    "--preset",
    type=click.Choice(["quick", "default"]),
    default="default",
    show_default=True,
    help="How long pretraining takes.",
)
@click.option("--shard-graphs", type=int, help="Graphs per file.  [default: 25000]")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    help="How graphs are stored.  [default: parquet]",
)
@raw_option
@portable_option
@crew_options
@making_options
def generate(
    source: str,
    out: str | None,
    asked: Asked,
    making: Making,
    **given: Any,  # noqa: ANN401
) -> None:
    """Generate a corpus from SOURCE: a recipe, the name of a dataset, or a corpus.

    Whatever SOURCE lacks is made first: the source corpus, the pieces of its graphs, a model of
    bridges, a mask of features. The new corpus holds the source graphs too, unless
    --augmented-only. Graphs whose nodes have labels are not spliced: --featx repeats them.
    """
    from gsx.cli.generating import generating_plan

    plan, artifacts = generating_plan(source, given, making.store)
    results = execute(plan, artifacts, making, out, asked, hand_out=portable_copy)
    if making.as_json and not making.dry_run:
        steps = [{"step": name, **built_object(built, path)} for name, built, path in results]
        print_json({**{k: v for k, v in steps[-1].items() if k != "step"}, "steps": steps})


@click.command(short_help="Run a recipe: make what is missing.")
@click.argument("recipe", type=click.Path(path_type=Path))
@raw_option
@crew_options
@making_options
def run(recipe: Path, raw: str | None, asked: Asked, making: Making) -> None:
    """Run RECIPE, a TOML file with one section per stage: only what is missing is made."""
    from gsx.pipeline.plan import make_plan
    from gsx.pipeline.recipe import read_recipe

    results = execute(make_plan(read_recipe(recipe, raw=raw)), {}, making, None, asked)
    if making.as_json and not making.dry_run:
        steps = [{"step": name, **built_object(built, path)} for name, built, path in results]
        print_json({"steps": steps})


def run_stage(
    name: str,
    options: Mapping[str, Any],
    given: Mapping[str, Artifact],
    making: Making,
    out: str | None = None,
    *,
    asked: Asked | None = None,
    announce: bool = True,
) -> Built | None:
    """Run one stage on given artifacts and return what it made; None when only shown.

    ``announce`` prints it as JSON where that is asked for.
    """
    from gsx.pipeline.plan import Step
    from gsx.pipeline.recipe import parse_config
    from gsx.pipeline.stages import stage_named

    stage = stage_named(name)
    config = parse_config(name, options, f"gsx {name}")
    results = execute((Step(stage, config, stage.inputs_of(config)),), given, making, out, asked)
    if making.dry_run:
        return None
    built, path = results[0][1:]
    if making.as_json and announce:
        print_json(built_object(built, path))
    return built


def execute(
    plan: tuple[Step, ...],
    given: Mapping[str, Artifact],
    making: Making,
    out: str | None = None,
    asked: Asked | None = None,
    hand_out: HandOut | None = None,
) -> list[tuple[str, Built, str]]:
    """Run a plan, or only show it, and return what each step made and where it is now.

    ``hand_out`` writes the last artifact to ``out``; without it the artifact is copied as it is.
    """
    from gsx.pipeline.runner import run_plan
    from gsx.storage.store import Store

    store = Store.at(making.store)
    if making.dry_run:
        _show_plan(plan, store, given, as_json=making.as_json)
        return []
    quiet = making.quiet or making.as_json
    speak = (lambda _: None) if making.quiet else say
    results = []
    for step, built in run_plan(
        plan,
        store,
        given=given,
        force=making.force,
        watch=lambda name: progress_bar(name, quiet=quiet),
        say=speak,
        hire=None if asked is None else asked.hire(speak),
    ):
        path = built.artifact.place.url
        if out is not None and step is plan[-1]:
            path = _copy_out(built.artifact, out, store, hand_out)
        results.append((step.name, built, path))
        if not quiet:
            click.echo(built_line(step.name, built))
            click.echo(f"          {path}")
    return results


def _copy_out(artifact: Artifact, out: str, store: Store, hand_out: HandOut | None) -> str:
    """Copy an artifact to a directory or a URL, or hand it out there; return where it is now."""
    from gsx.storage.copy import copy_artifact, send_artifact

    if "://" not in out:
        if hand_out is None:
            return str(copy_artifact(artifact, Path(out)))
        return str(hand_out(artifact, Path(out), store))
    if hand_out is None:
        return send_artifact(artifact, out)
    with tempfile.TemporaryDirectory() as folder:
        made = hand_out(artifact, Path(folder) / "copy", store)
        return send_artifact(store.resolve(str(made)), out)


def _show_plan(
    plan: tuple[Step, ...], store: Store, given: Mapping[str, Artifact], *, as_json: bool
) -> None:
    from gsx.pipeline.plan import inspect_plan

    statuses = inspect_plan(plan, store, given)
    if as_json:
        steps = [dataclasses.asdict(status) for status in statuses]
        print_json({"store": store.place.url, "steps": steps})
        return
    rows = [(s.step, s.kind, s.key[:12] if s.key else None, s.state) for s in statuses]
    click.echo(table(rows, ("STEP", "KIND", "KEY", "STATE")))
