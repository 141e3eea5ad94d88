"""DropNode, DropEdge and MaskFeature: graphs made of training graphs, one of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from gsx.ragged import Ints, Ragged, rows_of
from gsx.schema import CorpusInfo
from gsx.stages.augment.drop_edge import PAIR, drop_edges, number_pairs
from gsx.stages.augment.drop_node import drop_nodes
from gsx.stages.augment.mask_feature import Masked, mask_features
from gsx.stages.augment.rejection_sampling import Drawn
from gsx.table import GraphTable

Change = Literal["drop-node", "drop-edge", "mask-feature"]
WORDS: dict[Change, str] = {
    "drop-node": "DropNode",
    "drop-edge": "DropEdge",
    "mask-feature": "MaskFeature",
}
KEPT = ("y", "label", "env_id")
"""Graph columns that a new graph has from its parent: it stays in the parent's environment."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Changer:
    """Makes graphs that lack something of a training graph; label and environment stay."""

    change: Change
    rate: float
    masked: Masked
    info: CorpusInfo
    """Of the corpus that is made."""
    train: GraphTable
    """Training graphs: node and edge columns, ``graph_id`` and those that are kept."""

    @classmethod
    def of(
        cls, change: Change, rate: float, masked: Masked, info: CorpusInfo, train: GraphTable
    ) -> Changer:
        """Prepare to change training graphs."""
        if change == "drop-edge":
            train = number_pairs(train)
        return cls(
            change=change,
            rate=rate,
            masked=masked,
            info=described(info, WORDS[change]),
            train=train,
        )

    @property
    def origin(self) -> str:
        """``dropnode``, ``dropedge`` or ``maskfeature``."""
        return origin_of(self.change)

    def draw(self, items: Ints, stream: np.random.Generator) -> Drawn:
        """Make a graph of every row of the training graphs."""
        base = self.train.take(items)
        number = np.arange(base.total_nodes) - np.repeat(base.node_ptr[:-1], base.num_nodes)
        if self.change == "drop-node":
            table, number = drop_nodes(base, self.rate, stream)
            same = table.num_nodes == base.num_nodes
            lost, whole = base.num_nodes - table.num_nodes, base.num_nodes
        elif self.change == "drop-edge":
            table = drop_edges(base, self.rate, stream)
            same = table.num_edges == base.num_edges
            lost, whole = base.num_edges - table.num_edges, base.num_edges
        else:
            old = base.dense("node", "node_feat")
            new, hidden = mask_features(old, base.node_ptr, self.rate, self.masked, stream)
            table = base.with_columns(node={"node_feat": new})
            owner = rows_of(base.node_ptr)
            same = np.bincount(owner, (new != old).any(axis=1), len(base)) == 0
            lost = np.bincount(owner, hidden.sum(axis=1), len(base)).astype(np.int64)
            whole = base.num_nodes * old.shape[1]
        plain = table.select([*table.node, *(set(table.edge) - {PAIR}), *KEPT])
        return Drawn(
            table=plain,
            parents=Ragged(
                np.arange(len(base) + 1), base.dense("graph", "graph_id").astype(np.int64)
            ),
            number=Ragged(table.node_ptr, number.astype(np.int32)),
            weight=np.full(len(base), np.nan),
            unchanged=same,
            lost=lost,
            whole=whole,
        )


def origin_of(change: str) -> str:
    """Return how graphs with a change came to be, as a corpus has it."""
    return change.replace("-", "")


def described(info: CorpusInfo, word: str) -> CorpusInfo:
    """Describe a corpus that has graphs of an augmenter, too."""
    return msgspec.structs.replace(
        info, description=f"{info.description} Augmented by {word}.".strip()
    )
