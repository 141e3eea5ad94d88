"""Describe a corpus: how the graphs of every split and environment look, and how far they shift."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from gsx.columns import SPLITS
from gsx.ragged import Array
from gsx.stages.kernels.statistics import QUANTILES, degrees, mean_degrees, outside, spread
from gsx.stages.stage import Progress, Stage
from gsx.storage.corpus import Corpus
from gsx.storage.digest import readable_json
from gsx.storage.draft import Draft
from gsx.storage.publish import Outcome
from gsx.storage.store import Artifact

STATISTICS = "statistics.json"


class DescribeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[describe]``."""


class _Group:
    """What is kept of the graphs of one split and domain: three numbers a graph."""

    def __init__(self) -> None:
        self.nodes: list[Array] = []
        self.mean_degree: list[Array] = []
        self.max_degree = 0
        self.labels: np.ndarray[Any, Any] | int = 0

    def summary(self) -> dict[str, Any]:
        nodes = np.concatenate(self.nodes)
        return {
            "graphs": len(nodes),
            "nodes": spread(nodes),
            "mean_degree": spread(np.concatenate(self.mean_degree)),
            "max_degree": self.max_degree,
            "labels": np.asarray(self.labels).tolist(),
        }


def run(
    config: DescribeConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> Outcome:
    """Read the corpus once, row group by row group, and write ``statistics.json``."""
    del config
    corpus = Corpus(inputs["corpus"])
    groups = _collect(corpus, progress)
    rows = [
        {"split": split, "domain_id": domain, **group.summary()}
        for (split, domain), group in sorted(groups.items(), key=_order)
    ]
    shift = _shift(groups)
    document = {
        "corpus": corpus.key,
        "quantiles": QUANTILES,
        "groups": rows,
        "outside_training_sizes": shift,
    }
    draft.write_bytes(STATISTICS, readable_json(document))
    warnings = tuple(
        f"no graph of {split} is larger or smaller than the training graphs"
        for split, share in shift.items()
        if corpus.info.domain == "size"
        and split.startswith("ood")
        and share["below"] + share["above"] == 0
    )
    return Outcome(
        counts={"groups": len(rows)},
        warnings=warnings,
        summary={"name": corpus.info.name, "outside_training_sizes": shift},
    )


def _collect(corpus: Corpus, progress: Progress) -> dict[tuple[str, int], _Group]:
    groups: dict[tuple[str, int], _Group] = defaultdict(_Group)
    words = corpus.info.column("split").vocabulary
    label = "label" if corpus.info.level == "graph" else "node_label"
    classes = len(corpus.info.outputs)
    done = 0
    for table in corpus.iter_tables(columns=["split", "domain_id", label]):
        split, domain = table.dense("graph", "split"), table.dense("graph", "domain_id")
        for code, domain_id in sorted(set(zip(split.tolist(), domain.tolist(), strict=True))):
            part = table.filter((split == code) & (domain == domain_id))
            group = groups[words[code], domain_id]
            group.nodes.append(part.num_nodes)
            group.mean_degree.append(mean_degrees(part))
            group.max_degree = max(group.max_degree, int(degrees(part).max(initial=0)))
            axis = "graph" if label == "label" else "node"
            hard = part.dense(axis, label)  # type: ignore[arg-type]
            group.labels = group.labels + np.bincount(hard[hard >= 0], minlength=classes)
        done += len(table)
        progress(done, len(corpus))
    return groups


def _order(item: tuple[tuple[str, int], _Group]) -> tuple[int, int]:
    (split, domain), _ = item
    return SPLITS.index(split), domain


def _shift(groups: Mapping[tuple[str, int], _Group]) -> dict[str, dict[str, float]]:
    """Return, per split, the share of graphs smaller or larger than any training graph."""
    sizes: dict[str, list[Array]] = defaultdict(list)
    for (split, _), group in groups.items():
        sizes[split] += group.nodes
    if "train" not in sizes:
        return {}
    train = np.concatenate(sizes["train"])
    return {
        split: outside(np.concatenate(parts), train.min(), train.max())
        for split, parts in sizes.items()
        if split != "train"
    }


STAGE = Stage(
    name="describe",
    version=1,
    kind="statistics",
    config=DescribeConfig,
    inputs={"corpus": "prepare"},
    resolve=lambda config: config,
    run=run,
    sources=("gsx.stages.describe", "gsx.stages.kernels.statistics"),
)
