"""`gsx.report` and `gsx.export`: a corpus for people and for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from gsx.api.call import (
    as_corpus,
    check_choice,
    corpus_artifact,
    open_session,
    public,
)
from gsx.api.models import model_artifacts
from gsx.api.options import ExportOptions, FileFormat, FilePath, Layout, ReportOptions
from gsx.errors import UsageError

if TYPE_CHECKING:
    from gsx.storage.corpora.corpus import Corpus


@public(ReportOptions)
def report(
    corpus: str | Path | Corpus,
    path: FilePath = "report.html",
    **options: Unpack[ReportOptions],
) -> Path:
    """Write a self-contained HTML report of a corpus and return its path.

    Parameters
    ----------
    corpus
        A Corpus, or the key, tag, path or URL of one.
    path
        HTML file to write.
    options
        ``seed=`` of the sample of graphs; ``model=`` for the agreement check, or
        ``no_models=True``.

    Examples
    --------
    >>> gsx.report(corpus, "report.html")
    """
    from gsx.pipeline.commands.report import check_report_options, report_inputs, write_report

    where = "gsx.report"
    given: dict[str, Any] = dict(options)
    session = open_session(given, corpus, given.get("model"))
    out, model, no_models = Path(path), given.get("model"), bool(given.get("no_models", False))
    check_report_options(out, has_model=model is not None, no_models=no_models)
    inputs = report_inputs(
        corpus_artifact(where, corpus, session.store),
        session.store,
        model=None if model is None else model_artifacts(where, model, session.store)[0],
        no_models=no_models,
    )
    with session.open_progress("report") as progress:
        write_report(inputs, out, seed=given.get("seed", 0), progress=progress)
    return out


@overload
def export(
    corpus: str | Path | Corpus,
    path: FilePath,
    to: Layout = "portable",
    **options: Unpack[ExportOptions],
) -> Path: ...
@overload
def export(
    corpus: str | Path | Corpus,
    path: FilePath | None = None,
    *,
    to: FileFormat,
    **options: Unpack[ExportOptions],
) -> Corpus: ...
@public(ExportOptions)
def export(
    corpus: str | Path | Corpus,
    path: FilePath | None = None,
    to: Layout | FileFormat = "portable",
    **options: Unpack[ExportOptions],
) -> Path | Corpus:
    """Write a corpus to a new or empty directory, in a layout that other tools read.

    Parameters
    ----------
    corpus
        A Corpus, or the key, tag, path or URL of one.
    path
        New or empty directory. May be left out for ``to="parquet"``, ``"zarr"`` and ``"both"``.
    to
        ``portable``, ``pyg``, ``good``, ``ogb``, ``dgl``, ``csv``, ``smi``, ``sdf`` or
        ``chemprop``; or ``parquet``, ``zarr`` or ``both``, which write the shards in another
        format.
    options
        Those of `gsx export` with underscores: ``labels=``, ``creator=``, ``url=``.

    Returns
    -------
    Path or Corpus
        The directory; for a file format, the corpus in this format.

    Examples
    --------
    >>> gsx.export(corpus, "out", to="portable")
    >>> zarr = gsx.export(corpus, to="zarr")
    """
    from gsx.pipeline.commands.export import convert
    from gsx.pipeline.commands.export import export as export_corpus
    from gsx.pipeline.commands.option_values import FORMATS

    where = "gsx.export"
    check_choice(where, "to", to, Layout | FileFormat)
    given: dict[str, Any] = dict(options)
    session = open_session(given, corpus)
    artifact = corpus_artifact(where, corpus, session.store)
    if to in FORMATS:
        step = convert(artifact, to, session, path)
        assert step is not None
        return as_corpus(step.built.artifact, session.store)
    if path is None:
        raise UsageError(f"{where}: no target directory; pass `path`")
    exported = export_corpus(artifact, Path(path), {**given, "format_name": to}, session)
    assert exported is not None
    for note in exported.notes(artifact):
        session.notify(note)
    return Path(path)
