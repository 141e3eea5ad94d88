"""`gsx.describe`: statistics of a corpus and its distribution shift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from gsx.api.call import corpus_artifact, open_session, public
from gsx.api.display import Result, TableRows
from gsx.api.options import BuildOptions

if TYPE_CHECKING:
    from gsx.storage.artifacts.store import Artifact, Store
    from gsx.storage.corpora.corpus import Corpus


class Statistics(Result):
    """Sizes, degrees and labels of a corpus by split and domain, and its shift."""

    def __init__(self, artifact: Artifact, store: Store) -> None:
        self.artifact = artifact
        self.store = store

    @cached_property
    def _document(self) -> dict[str, Any]:
        from gsx.pipeline.commands.describe import read_statistics

        return {**read_statistics(self.artifact)}

    def to_dict(self) -> dict[str, Any]:
        """Return all statistics as plain values."""
        import msgspec

        document: dict[str, Any] = msgspec.to_builtins(self._document)
        return document

    def _lines(self) -> tuple[list[str], list[str]]:
        remarks = [
            f"{split}: {share['below']:.1%} smaller and {share['above']:.1%} larger than any "
            "training graph"
            for split, share in self._document.get("outside_training_sizes", {}).items()
        ]
        what = "features" if self._document.get("level") == "node" else "WL hash"
        remarks += [
            f"{split}: {equal['share']:.1%} have the {what} of a training item"
            for split, equal in self._document["equal_to_training"].items()
        ]
        return [], [*remarks, *self.artifact.manifest.warnings]

    def _table(self) -> tuple[TableRows, Sequence[str]]:
        records = self._records()
        headers = [name.upper().replace("_", " ") for name in records[0]] if records else []
        return [tuple(row.values()) for row in records], headers

    def _records(self) -> Sequence[Mapping[str, Any]]:
        if self._document.get("level") == "node":
            return [
                {
                    "split": row["split"],
                    "nodes": row["nodes"],
                    "degree": row["degree"]["mean"],
                    "features_present": row["features_present"]["mean"],
                    "edges_to_training": f"{row['edges_to_training']:.1%}",
                    "labels": "/".join(map(str, row["labels"])),
                }
                for row in self._document["splits"]
            ]
        return [
            {
                "split": row["split"],
                "graphs": row["graphs"],
                "nodes": row["nodes"]["mean"],
                "min_nodes": int(row["nodes"]["quantiles"][0]),
                "max_nodes": int(row["nodes"]["quantiles"][-1]),
                "degree": row["mean_degree"]["mean"],
                "max_degree": row["max_degree"],
                "labels": "/".join(map(str, row["labels"])),
            }
            for row in self._document["splits"]
        ]


@public(BuildOptions)
def describe(corpus: str | Path | Corpus, **options: Unpack[BuildOptions]) -> Statistics:
    """Compute sizes, degrees and labels of a corpus by split and domain, and their shift.

    Parameters
    ----------
    corpus
        A Corpus, or the key, tag, path or URL of one.
    options
        ``store=``, ``force=``, ``tag=``, ``quiet=``, ``progress=``.

    Examples
    --------
    >>> statistics = gsx.describe(source)
    >>> statistics.to_pandas()
    """
    from gsx.pipeline.commands.describe import describe as describe_corpus

    given: dict[str, Any] = dict(options)
    session = open_session(given, corpus)
    step = describe_corpus(corpus_artifact("gsx.describe", corpus, session.store), session)
    assert step is not None
    return Statistics(step.built.artifact, session.store)
