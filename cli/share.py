"""Commands that hand corpora out and show them: export, report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gsx.cli.options import FORMATS, Making, json_option, making_options, store_option
from gsx.cli.output import ordered, print_json, progress_bar, readable_bytes
from gsx.cli.resolve_corpus import corpus_named
from gsx.cli.run_plan import run_stage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gsx.storage.artifacts.manifest import Manifest
    from gsx.storage.artifacts.store import Artifact, Store

LAYOUTS = ("portable", "pyg", "good", "ogb", "dgl", "csv", "smi", "sdf")
"""What a directory outside the store may look like."""


@click.command(short_help="Write a corpus for other tools, or in another format.")
@click.argument("corpus")
@click.argument("directory", metavar="[DIR]", required=False)
@click.option(
    "--to",
    "form",
    type=click.Choice([*LAYOUTS, *FORMATS]),
    default="portable",
    show_default=True,
    help="What to write.",
)
@click.option(
    "--labels",
    type=click.Choice(["same-class", "argmax", "soft"]),
    default="same-class",
    show_default=True,
    help="good, ogb, dgl: leave graphs with soft labels out, take the likeliest class, or keep.",
)
@click.option("--out", metavar="DIR", help="The same as DIR.")
@click.option("--creator", default="", help="Who publishes it, for the card.")
@click.option("--url", default="", help="Where it is published, for the card.")
@making_options
def export(
    corpus: str,
    directory: str | None,
    form: str,
    out: str | None,
    making: Making,
    **said: Any,  # noqa: ANN401
) -> None:
    """Write CORPUS to DIR, a new or empty directory, in a layout that other tools read.

    `portable` is for everybody: Parquet, a dataset card, Croissant, checksums, splits as CSV and a
    loader for PyG. `pyg`, `good`, `ogb` and `dgl` are what these libraries read, `csv` plain
    tables, `smi` and `sdf` molecules. `parquet`, `zarr` and `both` write the shards anew into the
    store, and to DIR if it is named.
    """
    from gsx.errors import UsageError
    from gsx.storage.artifacts.store import Store

    if directory and out and directory != out:
        raise UsageError(f"DIR is {directory}, but --out says {out}; name one of them.")
    target = directory or out
    store = Store.at(making.store)
    artifact = corpus_named(store, corpus)
    if form in FORMATS:
        options = {"formats": FORMATS[form]}
        run_stage("convert", options, {"prepare": artifact}, making, target)
        return
    if target is None:
        raise UsageError(f"name the directory to write: `gsx export {corpus} --to {form} DIR`")
    _export(artifact, store, Path(target), making, {"layout": form, **said})


def _export(
    artifact: Artifact, store: Store, target: Path, making: Making, said: Mapping[str, Any]
) -> None:
    from gsx.stages.export.export import export as write
    from gsx.storage.artifacts.lineage import manifests
    from gsx.storage.corpora.corpus import Corpus

    if making.dry_run:
        click.echo(f"export    {artifact.key[:12]}  would be written to {target}")
        return
    started = time.perf_counter()
    lineage = manifests(store, artifact)
    made, reused = write(Corpus(artifact), lineage, target, **said)
    seconds = time.perf_counter() - started
    manifest = made.manifest
    if making.as_json:
        print_json(
            {
                "key": manifest.key,
                "kind": manifest.kind,
                "path": str(target),
                "digest": manifest.digest,
                "reused": reused,
                "counts": ordered(manifest.counts),
                "seconds": round(seconds, 3),
            }
        )
    elif not making.quiet:
        how = "already there" if reused else f"made in {seconds:.1f} s"
        count = f"{sum(manifest.counts.values()):,} graphs"
        click.echo(f"export    {manifest.key[:12]}  {count:<16} {how}\n          {target}")


def portable_copy(artifact: Artifact, target: Path, store: Store) -> Path:
    """Write a corpus to ``target`` for people without gsx, and return where it is."""
    from gsx.stages.export.export import export as write
    from gsx.storage.artifacts.lineage import manifests
    from gsx.storage.corpora.corpus import Corpus

    write(Corpus(artifact), manifests(store, artifact), target)
    return target


@click.command(short_help="Write a page that shows what a corpus is and whether it is true.")
@click.argument("corpus")
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    default="report.html",
    show_default=True,
    help="Page to write.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which graphs are drawn.")
@click.option(
    "--model",
    metavar="MODEL",
    help="Classifier to ask for a second opinion.  [default: the best trained on source graphs]",
)
@click.option("--no-models", is_flag=True, help="Leave trained classifiers out.")
@store_option
@json_option
def report(
    corpus: str,
    *,
    out: Path,
    seed: int,
    model: str | None,
    no_models: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Write one self-contained HTML page about CORPUS.

    It tells what the corpus is, how it was made, how far it reaches outside training, whether
    its synthetic graphs are true to their parents, what graphs look like, and what classifiers
    in the store make of it. One of these is asked whether it tells the labels that synthetic
    graphs were given, and draws how it sees them: the best on OOD validation of those trained on
    source graphs alone, or --model.
    """
    from gsx.errors import UsageError
    from gsx.stages.report.report import Sources
    from gsx.stages.report.report import report as write
    from gsx.storage.artifacts.atomic_files import explained, write_atomically
    from gsx.storage.artifacts.lineage import children, manifests
    from gsx.storage.artifacts.store import Store
    from gsx.storage.corpora.corpus import Corpus
    from gsx.storage.sharing.atomic_directory import refuse_unless_file

    started = time.perf_counter()
    if model is not None and no_models:
        raise UsageError("--model names a classifier and --no-models leaves all out; give one.")
    refuse_unless_file(out)
    place = Store.at(store)
    artifact = corpus_named(place, corpus)
    lineage = manifests(place, artifact)
    teacher = None if model is None else _taught(place.resolve(model, kind="model"), lineage)
    models = []
    if not no_models:
        for where, digest in _trained_on(lineage):
            models += [(where, model) for model in children(place, digest, "model")]
    sources = Sources(
        corpus=Corpus(artifact),
        lineage=tuple(lineage),
        extractor=_extractor(place, lineage),
        models=models,
        teacher=teacher,
    )
    with progress_bar("report", quiet=as_json) as progress:
        text = write(sources, seed=seed, progress=progress)
    with explained(str(out), lost="Nothing was written there.", other="-o FILE"):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, text.encode())
    seconds = round(time.perf_counter() - started, 3)
    if as_json:
        size = len(text.encode())
        print_json({"path": str(out), "bytes": size, "key": artifact.key, "seconds": seconds})
        return
    click.echo(f"report    {artifact.key[:12]}  {readable_bytes(len(text.encode())):<16} "
               f"made in {seconds:.1f} s\n          {out}")  # fmt: skip


def _trained_on(lineage: Sequence[Manifest]) -> list[tuple[str, str]]:
    """Return the contents whose models a report shows: the corpus, as exported too, its source."""
    from gsx.stages.report.model_results import BEFORE, HERE

    corpora = [manifest for manifest in lineage if manifest.kind == "corpus"]
    same = 2 if corpora[0].stage == "export" else 1
    return [
        (HERE if place < same else BEFORE, manifest.digest)
        for place, manifest in enumerate(corpora)
    ]


def _taught(model: Artifact, lineage: Sequence[Manifest]) -> tuple[str, Artifact]:
    """Return a model with what it was trained on, as seen from a corpus."""
    from gsx.stages.report.model_results import ELSEWHERE

    digests = {parent.digest for parent in model.manifest.parents}
    known = [where for where, digest in _trained_on(lineage) if digest in digests]
    return (known[0] if known else ELSEWHERE), model


def _extractor(store: Store, lineage: Sequence[Manifest]) -> Artifact | None:
    """Return the extractor a corpus was made with, if the store holds that very one."""
    for manifest in lineage:
        if manifest.kind == "extractor":
            found = store.peek("extractor", manifest.key, manifest.digest)
            if found is not None and found.manifest.digest == manifest.digest:
                return found
    return None
