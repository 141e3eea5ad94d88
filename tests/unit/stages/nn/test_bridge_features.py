"""Node inputs of the bridge networks."""

import msgspec
import numpy as np

from gsx.stages.nn.bridge_features import (
    BridgeEncoding,
    bridge_input_width,
    bridge_inputs,
    fit_bridge_encoding,
)
from tests.support.graph_tables import table_from_edges


def attributed_path():
    """Return a path 0-1-2 with a categorical and a constant feature, and numeric attributes."""
    return table_from_edges((3, [(0, 1), (1, 2)])).with_columns(
        node={"node_feat": np.array([[6, 1], [7, 1], [6, 1]], dtype=np.int8)},
        edge={"edge_attr": np.array([[1.0], [1.0], [3.0], [3.0]], dtype=np.float32)},
    )


def test_integers_are_categories_and_constant_columns_are_dropped():
    encoding = fit_bridge_encoding(attributed_path())
    assert [column.column for column in encoding.node] == [0]
    assert encoding.node[0].words == (6, 7)
    assert encoding.num_node_features == 2


def test_categories_are_one_hot_and_attributes_are_summed_over_the_edges_of_a_node():
    table = attributed_path()
    encoding = fit_bridge_encoding(table)
    rows = bridge_inputs(table, encoding)
    assert rows.shape == (3, bridge_input_width(encoding))
    assert rows[:, 7:9].tolist() == [[1, 0], [0, 1], [1, 0]]
    assert rows[:, 9].tolist() == [-1, 0, 1]


def test_unknown_category_is_all_zeros():
    table = attributed_path()
    encoding = fit_bridge_encoding(table)
    other = table.with_columns(node={"node_feat": np.full((3, 2), 9, dtype=np.int8)})
    assert not bridge_inputs(other, encoding)[:, 7:9].any()


def test_encoding_round_trips_through_json():
    encoding = fit_bridge_encoding(attributed_path())
    assert msgspec.json.decode(msgspec.json.encode(encoding), type=BridgeEncoding) == encoding
