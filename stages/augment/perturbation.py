"""DropNode, DropEdge and MaskFeature of training graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from gsx.ragged import Ints, Ragged, row_indices
from gsx.schema import CorpusInfo
from gsx.stages.augment.drop_edge import PAIR, drop_edges, number_node_pairs
from gsx.stages.augment.drop_node import drop_nodes
from gsx.stages.augment.mask_feature import MaskMode, mask_features
from gsx.stages.augment.rejection_sampling import DrawnGraphs
from gsx.stages.augmented.derived_columns import one_parent_each
from gsx.table import GraphTable

PerturbationMethod = Literal["drop-node", "drop-edge", "mask-feature"]
DISPLAY_NAMES: dict[PerturbationMethod, str] = {
    "drop-node": "DropNode",
    "drop-edge": "DropEdge",
    "mask-feature": "MaskFeature",
}
INHERITED_COLUMNS = ("y", "label", "env_id")
"""Graph columns that a perturbed graph inherits; it stays in the environment of its parent."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Perturbation:
    """Augmenter that removes nodes, edges or features of training graphs."""

    method: PerturbationMethod
    rate: float
    """Probability that a node, edge or feature is removed."""
    mask_mode: MaskMode
    info: CorpusInfo
    """Description of the augmented corpus."""
    train: GraphTable
    """Training graphs with node and edge columns, ``graph_id`` and inherited columns."""

    @classmethod
    def of(
        cls,
        method: PerturbationMethod,
        rate: float,
        mask_mode: MaskMode,
        info: CorpusInfo,
        train: GraphTable,
    ) -> Perturbation:
        """Return a perturbation of training graphs; ``info`` describes the source corpus."""
        if method == "drop-edge":
            train = number_node_pairs(train)
        return cls(
            method=method,
            rate=rate,
            mask_mode=mask_mode,
            info=augmented_info(info, DISPLAY_NAMES[method]),
            train=train,
        )

    @property
    def origin(self) -> str:
        """``dropnode``, ``dropedge`` or ``maskfeature``."""
        return origin_of(self.method)

    def draw(self, items: Ints, stream: np.random.Generator) -> DrawnGraphs:
        """Perturb each of the given rows of the training graphs."""
        base = self.train.take(items)
        number = np.arange(base.total_nodes) - np.repeat(base.node_ptr[:-1], base.num_nodes)
        if self.method == "drop-node":
            table, number = drop_nodes(base, self.rate, stream)
            unchanged = table.num_nodes == base.num_nodes
            removed, total = base.num_nodes - table.num_nodes, base.num_nodes
        elif self.method == "drop-edge":
            table = drop_edges(base, self.rate, stream)
            unchanged = table.num_edges == base.num_edges
            removed, total = base.num_edges - table.num_edges, base.num_edges
        else:
            old = base.dense("node", "node_feat")
            new, masked = mask_features(old, base.node_ptr, self.rate, self.mask_mode, stream)
            table = base.with_columns(node={"node_feat": new})
            graph = row_indices(base.node_ptr)
            unchanged = np.bincount(graph, (new != old).any(axis=1), len(base)) == 0
            removed = np.bincount(graph, masked.sum(axis=1), len(base)).astype(np.int64)
            total = base.num_nodes * old.shape[1]
        plain = table.select([*table.node, *(set(table.edge) - {PAIR}), *INHERITED_COLUMNS])
        return DrawnGraphs(
            table=plain,
            parents=one_parent_each(base.dense("graph", "graph_id")),
            node_number=Ragged(table.node_ptr, number.astype(np.int32)),
            strength=np.full(len(base), np.nan),
            unchanged=unchanged,
            removed=removed,
            total=total,
        )


def origin_of(method: str) -> str:
    """Return the value of the column ``origin`` for a method."""
    return method.replace("-", "")


def augmented_info(info: CorpusInfo, method: str) -> CorpusInfo:
    """Return the description of a corpus plus graphs augmented by ``method``."""
    return msgspec.structs.replace(
        info, description=f"{info.description} Augmented by {method}.".strip()
    )
