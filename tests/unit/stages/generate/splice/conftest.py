"""Fixtures of splicing: environmental subgraphs with source node numbers."""

import numpy as np
import pytest

from gsx.stages.generate.splice.component_columns import SOURCE_NUMBER
from gsx.stages.graphs.subgraphs import induced_subgraphs, is_connected
from tests.conftest import motif_split


@pytest.fixture(scope="module")
def subgraphs():
    """Connected bases of Motif graphs; nodes have the numbers of their source graph."""
    table = motif_split("train", 0, 200)
    bases, number = induced_subgraphs(
        table.select(("node_feat", "edge_src", "edge_dst")), table.node["node_truth"] == 0
    )
    bases = bases.with_columns(node={SOURCE_NUMBER: number.astype(np.int32)})
    return bases.filter((bases.num_nodes > 0) & is_connected(bases))
