"""How features are read by networks."""

import msgspec
import numpy as np

from gsx.stages.nn.bridge_features import BridgeEncoding, bridge_input_width, fit_bridge_encoding, bridge_inputs
from tests.unit.stages.graphs.test_cuts import table_of


def corpus_like():
    return table_of((3, [(0, 1), (1, 2)])).with_columns(
        node={"node_feat": np.array([[6, 1], [7, 1], [6, 1]], dtype=np.int8)},
        edge={"edge_attr": np.array([[1.0], [1.0], [3.0], [3.0]], dtype=np.float32)},
    )


def test_whole_numbers_are_words_and_constant_columns_are_left_out():
    code = fit_bridge_encoding(corpus_like())
    assert [part.column for part in code.node] == [0]
    assert code.node[0].words == (6, 7)
    assert code.num_node_features == 2


def test_words_become_one_hot_and_real_attributes_add_up_over_the_edges_of_a_node():
    table = corpus_like()
    code = fit_bridge_encoding(table)
    rows = bridge_inputs(table, code)
    assert rows.shape == (3, bridge_input_width(code))
    assert rows[:, 7:9].tolist() == [[1, 0], [0, 1], [1, 0]]
    assert rows[:, 9].tolist() == [-1, 0, 1]


def test_a_word_never_seen_lights_nothing():
    table = corpus_like()
    code = fit_bridge_encoding(table)
    other = table.with_columns(node={"node_feat": np.full((3, 2), 9, dtype=np.int8)})
    assert not bridge_inputs(other, code)[:, 7:9].any()


def test_a_code_survives_its_file():
    code = fit_bridge_encoding(corpus_like())
    assert msgspec.json.decode(msgspec.json.encode(code), type=BridgeEncoding) == code
