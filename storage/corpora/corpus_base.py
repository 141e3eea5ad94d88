"""Description of a corpus, and selection of graphs by split, environment and origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gsx.errors import UsageError, did_you_mean
from gsx.ragged import Ints
from gsx.schema import ORIGINS, CorpusInfo
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.summary import CorpusSummary, corpus_summary
from gsx.table import GraphTable

Splits = str | Sequence[str] | None
"""One split, or several; None: all."""
Envs = int | Sequence[int] | None
"""One environment id, or several; None: all."""
Origins = str | Sequence[str] | None
"""One origin, such as ``source``, or several; None: all."""


class CorpusBase:
    """What a corpus is, and which of its graphs a selection has."""

    artifact: Artifact
    info: CorpusInfo
    store: Store | None
    """The store that the corpus was opened from by name or built in; None if it was opened by
    path."""

    @property
    def splits(self) -> Mapping[str, int]:
        """Graphs per split."""
        raise NotImplementedError

    def __repr__(self) -> str:
        counts = self.nodes or self.splits
        splits = ", ".join(f"{name} {count}" for name, count in counts.items())
        unit = "nodes, " if self.nodes else ""
        return f"Corpus({self.info.name} {self.key[:12]}: {unit}{splits})"

    def _repr_html_(self) -> str:
        """Show splits and environments in a notebook."""
        from gsx.storage.corpora.corpus_html import corpus_html

        return corpus_html(self.info, self.summary, self.key)

    @property
    def key(self) -> str:
        """The key of the artifact."""
        return self.artifact.key

    @property
    def name(self) -> str:
        """Name of the dataset."""
        return self.info.name

    @property
    def path(self) -> str:
        """Directory or URL of the corpus."""
        return self.artifact.location.url

    @property
    def metric(self) -> str:
        """Metric of predictions: ``accuracy``, ``roc_auc``, ``mcc`` or ``rmse``."""
        return self.info.metric

    @property
    def num_classes(self) -> int:
        """Number of classes: 2 for binary tasks, the number of targets for regression."""
        return self.info.num_classes

    @cached_property
    def summary(self) -> CorpusSummary:
        """Counts and labels of splits and environments, from the manifest."""
        return corpus_summary(self.artifact.manifest, self.info)

    @property
    def nodes(self) -> Mapping[str, int]:
        """Labelled nodes per split; empty for a corpus with graph labels."""
        counts: dict[str, int] = {}
        for group in self.summary.get("node_groups", ()):
            counts[group["split"]] = counts.get(group["split"], 0) + group["count"]
        return counts

    @property
    def environments(self) -> list[dict[str, Any]]:
        """One row per environment: id, name, origin, and count, sizes and labels of its graphs."""
        return [dict(row) for row in self.summary["environments"]]

    def select_rows(
        self, table: GraphTable, split: Splits, env: Envs, origin: Origins = None
    ) -> Ints:
        """Return the rows of ``table`` in the given splits, environments and origins."""
        keep = np.ones(len(table), dtype=bool)
        if (names := self.check_splits(split)) is not None:
            codes = [self.info.column("split").vocabulary.index(name) for name in names]
            keep &= np.isin(table.dense("graph", "split"), codes)
        if (ids := self.check_envs(env)) is not None:
            keep &= np.isin(table.dense("graph", "env_id"), ids)
        if (origins := self.check_origins(origin)) is not None:
            codes = [ORIGINS.index(name) for name in origins]
            keep &= np.isin(table.dense("graph", "origin"), codes)
        return np.flatnonzero(keep)

    def check_splits(self, split: Splits) -> list[str] | None:
        """Return split names as a list; raise UsageError for an unknown split."""
        if split is None:
            return None
        names = [split] if isinstance(split, str) else _listed("split", split)
        for name in names:
            if name not in self.splits:
                raise UsageError(
                    f"no split `{name}` in this corpus. {did_you_mean(str(name), self.splits)}"
                )
        return names

    def check_envs(self, env: Envs) -> list[int] | None:
        """Return environment ids as a list; raise UsageError for an unknown environment."""
        if env is None:
            return None
        ids: list[int] = np.atleast_1d(np.asarray(env)).tolist()
        available = [environment.id for environment in self.info.environments]
        for id_ in ids:
            if id_ not in (*available, -1):
                raise UsageError(f"no environment {id_} in this corpus; it has {available}")
        return ids

    def check_origins(self, origin: Origins) -> list[str] | None:
        """Return origins as a list; raise UsageError for an unknown origin."""
        if origin is None:
            return None
        names = [origin] if isinstance(origin, str) else _listed("origin", origin)
        for name in names:
            if name not in ORIGINS:
                raise UsageError(f"no origin `{name}`. {did_you_mean(str(name), ORIGINS)}")
        return names

    def check_columns(self, names: Sequence[str]) -> None:
        """Raise UsageError for a column that the corpus lacks."""
        available = [column.name for column in self.info.columns]
        for name in names:
            if name not in available:
                hint = did_you_mean(str(name), available)
                raise UsageError(f"no column `{name}` in this corpus. {hint}")


def selection_columns(env: Envs, origin: Origins) -> list[str]:
    """Return the columns that a selection reads, in addition to the split."""
    wanted = {"env_id": env, "origin": origin}
    return [name for name, value in wanted.items() if value is not None]


def _listed(what: str, names: object) -> list[str]:
    if not isinstance(names, Iterable):
        raise UsageError(f"{what} must be a name or a list of names; got {names!r}")
    return list(names)
