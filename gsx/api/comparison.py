"""`gsx.compare`: train with and without a corpus, and compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from gsx.api.call import (
    as_text,
    check_choice,
    check_type,
    corpus_artifact,
    open_session,
    public,
    rename_options,
)
from gsx.api.display import Result, TableRows
from gsx.api.models import TRAINING_UNSET
from gsx.api.options import Algorithm, CompareOptions

if TYPE_CHECKING:
    from gsx.pipeline.compare import CorpusComparison
    from gsx.storage.corpora.corpus import Corpus


class Comparison(Result):
    """Scores on two corpora, or with and without augmented graphs, and their difference."""

    def __init__(
        self, comparison: CorpusComparison, document: Mapping[str, Any], *, one_corpus: bool
    ) -> None:
        self._comparison = comparison
        self._document = dict(document)
        self._one_corpus = one_corpus

    @property
    def metric(self) -> str:
        """Metric of the scores."""
        return self._comparison.metric

    def to_dict(self) -> dict[str, Any]:
        """Return scores, gains, intervals and runs as plain values."""
        import msgspec

        document: dict[str, Any] = msgspec.to_builtins(self._document)
        return document

    def __repr__(self) -> str:
        from gsx.pipeline.commands.compare import format_comparison

        return "\n".join(format_comparison(self._comparison, one_corpus=self._one_corpus))

    def _lines(self) -> tuple[list[str], list[str]]:
        from gsx.pipeline.commands.compare import verdict

        splits = self._comparison.splits.items()
        heading = f"{self._comparison.name}: {self.metric}, {len(self._comparison.runs)} seeds"
        return [heading], [f"{split}: {verdict(row)}" for split, row in splits]

    def _table(self) -> tuple[TableRows, Sequence[str]]:
        digits = 3 if self.metric in ("mcc", "rmse") else 2
        rows = [
            (
                row["split"],
                row["items"],
                f"{row['corpus']:.{digits}f}",
                f"{row['baseline']:.{digits}f}",
                f"{row['gain']:+.{digits}f}",
                f"{row['low']:+.{digits}f} to {row['high']:+.{digits}f}",
                f"{row['p']:.3f}",
            )
            for row in self._records()
        ]
        return rows, ("SPLIT", "ITEMS", "CORPUS", "BASELINE", "GAIN", "95 %", "P")

    def _records(self) -> Sequence[Mapping[str, Any]]:
        return [{"split": split, **row} for split, row in self._document["splits"].items()]


@public(CompareOptions)
def compare(
    corpus: str | Path | Corpus,
    baseline: str | Path | Corpus | None = None,
    *,
    seeds: int = 5,
    seed: int = 0,
    algorithm: Algorithm = "erm",
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Answer whether a corpus helps: train with and without it, paired by seed, and compare.

    Models are trained for the same number of gradient steps. An interrupted comparison resumes.

    Parameters
    ----------
    corpus
        An augmented corpus.
    baseline
        Corpus to compare with. Default: the source graphs of ``corpus``.
    seeds
        Models to train per corpus.
    seed
        The first seed.
    algorithm
        Training algorithm.
    options
        Those of `gsx compare` with underscores: ``split=``, ``equal_epochs=``, ``epochs=``, …

    Examples
    --------
    >>> comparison = gsx.compare(corpus, seeds=5)
    >>> print(comparison)
    >>> comparison.to_pandas()[["split", "gain", "low", "high"]]
    """
    from gsx.pipeline.commands.compare import (
        compare_request,
        comparison_document,
        pair_text,
        write_results,
    )
    from gsx.pipeline.compare import compare_corpora

    where = "gsx.compare"
    check_choice(where, "algorithm", algorithm, Algorithm)
    for name, value in (("seeds", seeds), ("seed", seed)):
        check_type(where, name, value, int)
    given = rename_options(where, options, {})
    given.setdefault("learner", algorithm)
    session = open_session(given, corpus, baseline)
    complete = {
        **TRAINING_UNSET,
        "preset": "default",
        "split": None,
        "equal_epochs": False,
        "results": None,
        "method": "corpus",
        **given,
        "seeds": seeds,
        "seed": seed,
    }
    complete["results"] = as_text(complete["results"])
    artifacts = [corpus_artifact(where, corpus, session.store)]
    if baseline is not None:
        artifacts.append(corpus_artifact(where, baseline, session.store))
    request = compare_request(artifacts, complete, session.store)
    comparison = compare_corpora(
        request,
        session.store,
        open_progress=session.open_progress,
        notify=session.notify,
        on_pair=lambda pair: session.notify(pair_text(pair)),
    )
    written = write_results(comparison, complete, f"gsx.compare({given})")
    document = {**comparison_document(comparison, request), "results": written}
    return Comparison(comparison, document, one_corpus=baseline is None)
