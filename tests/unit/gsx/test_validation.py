import msgspec
import numpy as np
import pytest
from hypothesis import given

from gsx.errors import TableError
from gsx.ragged import Ragged, pointers
from gsx.schema import CorpusInfo, Environment, Feature, corpus_columns, label_columns
from gsx.table import GraphTable
from gsx.validation import validate_table
from tests.support.strategies import tables, tiny_info, tiny_table

NAN, INF = np.nan, np.inf


def error_message(table, info):
    with pytest.raises(TableError) as error:
        validate_table(table, info)
    return str(error.value)


def floats(*rows):
    return np.array(rows, dtype=np.float32)


def ints(*rows):
    return np.array(rows, dtype=np.int32)


def labelled(y, label, *, task="classification"):
    """Return one-node graphs with the given labels, and a schema with only these labels."""
    graphs, outputs = len(y), len(y[0])
    info = msgspec.structs.replace(
        tiny_info(),
        task=task,
        outputs=tuple("abc"[:outputs]),
        columns=(
            *label_columns("graph", outputs),
            *map(tiny_info().column, ("graph_id", "env_id", "edge_src", "edge_dst")),
        ),
    )
    table = GraphTable(
        node_ptr=np.arange(graphs + 1),
        edge_ptr=np.zeros(graphs + 1, dtype=np.int64),
        graph={
            "graph_id": np.arange(graphs) + 70,
            "y": floats(*y),
            "label": ints(*label),
            "env_id": np.full(graphs, -1, dtype=np.int32),
        },
        edge={"edge_src": ints(), "edge_dst": ints()},
    )
    return table, info


def node_level():
    """Return two graphs of two labelled nodes, and their schema."""
    info = CorpusInfo(
        name="nodes",
        level="node",
        outputs=("a", "b"),
        domain="degree",
        environments=(Environment(id=0, name="low"),),
        columns=tuple(
            column
            for column in corpus_columns(outputs=2, num_features=1, level="node")
            if column.name.startswith(
                ("graph_id", "split", "node_y", "node_label", "node_env", "node_split")
            )
            or column.name in ("edge_src", "edge_dst")
        ),
        num_features=1,
    )
    table = GraphTable(
        node_ptr=np.array([0, 2, 4]),
        edge_ptr=np.array([0, 0, 0]),
        graph={"graph_id": np.array([5, 6]), "split": np.array([5, 5], dtype=np.int8)},
        node={
            "node_y": floats([1, 0], [0, 1], [0.5, 0.5], [NAN, NAN]),
            "node_label": ints(0, 1, -1, -1),
            "node_env_id": ints(0, -1, 0, 0),
            "node_split": np.array([0, 1, 3, 5], dtype=np.int8),
        },
        edge={"edge_src": ints(), "edge_dst": ints()},
    )
    return table, info


def sparse(index, value, ptr=(0, 2, 2, 3), value_ptr=None):
    """Return graphs of one and two nodes with sparse features, and their schema."""
    columns = corpus_columns(outputs=2, num_features=3, sparse=True)
    info = msgspec.structs.replace(
        tiny_info(),
        num_features=3,
        columns=tuple(c for c in columns if c.name.startswith(("node_feat", "edge", "graph_id"))),
    )
    table = GraphTable(
        node_ptr=np.array([0, 1, 3]),
        edge_ptr=np.array([0, 0, 0]),
        graph={"graph_id": np.array([0, 1])},
        node={
            "node_feat_index": Ragged(np.array(ptr), ints(*index)),
            "node_feat_value": Ragged(np.array(value_ptr or ptr), floats(*value)),
        },
        edge={"edge_src": ints(), "edge_dst": ints()},
    )
    return table, info


@given(tables())
def test_every_valid_table_is_accepted(example):
    table, info = example
    assert validate_table(table, info) is table


def test_self_loops_empty_graphs_soft_and_missing_labels_are_accepted():
    table = tiny_table()
    assert validate_table(table, tiny_info()) is table


def test_structure_is_checked_first():
    table = tiny_table().with_columns(edge={"edge_src": ints(0, 1, 1, 3, 0)})
    assert error_message(table, tiny_info()) == (
        "graph 10: edge 3 has edge_src 3, but the graph has 3 nodes (1 such edges in total)"
    )


def test_a_missing_column_is_named():
    table = tiny_table().select({*tiny_table().graph, "edge_attr"})
    assert (
        error_message(table, tiny_info()) == "column `node_feat` is missing from the node columns"
    )


@pytest.mark.parametrize(
    ("axis", "name", "values", "text"),
    [
        ("graph", "smiles", np.zeros(3, dtype=np.uint8),
         "column `smiles` must be ragged"),
        ("graph", "label", Ragged(pointers([0, 0, 0]), ints()),
         "column `label` must be dense"),
        ("graph", "label", np.zeros(3, dtype=np.int64),
         "column `label` has type int64; expected int32"),
        ("graph", "smiles", Ragged(pointers([0, 0, 0]), ints()),
         "column `smiles` has type int32; expected uint8"),
        ("node", "node_feat", np.zeros((4, 3), dtype=np.float32),
         "column `node_feat` has rows of shape (3,); expected (2,)"),
        ("graph", "env_id", np.zeros((3, 1), dtype=np.int32),
         "column `env_id` has rows of shape (1,); expected ()"),
        ("graph", "smiles", Ragged(pointers([1, 1, 0]), np.array([0xC3, 0xA9], dtype=np.uint8)),
         "column `smiles` holds bytes that are not UTF-8 text"),
        ("graph", "split", np.array([0, 6, 0], dtype=np.int8),
         "column `split` has codes outside its vocabulary"),
        ("graph", "origin", np.array([0, -1, 0], dtype=np.int8),
         "column `origin` has codes outside its vocabulary"),
        ("node", "node_feat", floats([1, 2], [3, 4], [5, NAN], [7, 8]),
         "graph 10: node 2 has NaN or infinity in `node_feat`. "
         "Clean the source data; gsx does not impute features."),
        ("node", "node_feat", floats([1, 2], [3, 4], [5, 6], [INF, 8]),
         "graph 11: node 0 has NaN or infinity in `node_feat`. "
         "Clean the source data; gsx does not impute features."),
        ("edge", "edge_attr", floats([1], [1], [1], [-INF], [NAN]),
         "graph 10: edge 3 has NaN or infinity in `edge_attr`. "
         "Clean the source data; gsx does not impute features."),
        ("graph", "env_id", ints(0, 2, -1),
         "graph 11: environment 2 is not one of the 2 environments of the corpus"),
        ("graph", "env_id", ints(-2, 0, -1),
         "graph 10: environment -2 is not one of the 2 environments of the corpus"),
    ],
)  # fmt: skip
def test_an_invalid_column_is_refused(axis, name, values, text):
    assert error_message(tiny_table().with_columns(**{axis: {name: values}}), tiny_info()) == text


@pytest.mark.parametrize(
    ("y", "label", "task", "text"),
    [
        ([[1, 0], [0, 1]], [0, 2], "classification",
         "graph 71: label 2 is outside the 2 classes 0..1 (1 such labels in total)"),
        ([[1, 0], [0, 1]], [-2, 5], "classification",
         "graph 70: label -2 is outside the 2 classes 0..1 (2 such labels in total)"),
        ([[1]], [2], "binary",
         "graph 70: label 2 is outside the 2 classes 0..1 (1 such labels in total)"),
        ([[0, 1], [INF, 0]], [1, -1], "regression",
         "graph 71: `y` is infinite"),
        ([[0.5, 0.5], [1.5, -0.5]], [-1, -1], "classification",
         "graph 71: `y` is outside [0, 1]: [1.5, -0.5]"),
        ([[0.5, 2]], [-1], "multitask",
         "graph 70: `y` is outside [0, 1]: [0.5, 2.0]"),
        ([[0.5, 0.25]], [-1], "classification",
         "graph 70: `y` must be a distribution that sums to 1, or all NaN; found [0.5, 0.25]"),
        ([[NAN, NAN], [NAN, 1]], [-1, -1], "classification",
         "graph 71: `y` must be a distribution that sums to 1, or all NaN; found [nan, 1.0]"),
        ([[1, 0], [0.5, 0.5]], [0, 1], "classification",
         "graph 71: label 1 does not match `y` [0.5, 0.5]"),
        ([[NAN, NAN]], [0], "classification",
         "graph 70: label 0 does not match `y` [nan, nan]"),
        ([[0.75]], [1], "binary",
         "graph 70: label 1 does not match `y` [0.75]"),
    ],
)  # fmt: skip
def test_invalid_labels_are_refused(y, label, task, text):
    assert error_message(*labelled(y, label, task=task)) == text


@pytest.mark.parametrize(
    ("y", "label", "task"),
    [
        ([[0.33333, 0.33333, 0.33334]], [-1], "classification"),
        ([[1], [0], [NAN], [0.4]], [1, 0, -1, -1], "binary"),
        ([[0.1, NAN], [NAN, NAN]], [-1, -1], "multitask"),
        ([[-50, 1e30]], [-1], "regression"),
        ([[1, 0]], [1], "multitask"),
    ],
    ids=["rounding", "binary", "missing tasks", "any value", "label of many tasks"],
)
def test_valid_labels_are_accepted(y, label, task):
    table, info = labelled(y, label, task=task)
    assert validate_table(table, info) is table


def test_codes_without_a_category_name_are_refused():
    table, info = tiny_table(), tiny_info()
    words = (Feature(name="head", words=("a", "b")), Feature(name="tail", words=("long",)))
    codes = np.ones((table.total_nodes, 2), dtype=np.uint8)
    columns = tuple(
        msgspec.structs.replace(column, dtype="uint8", width=2, features=words)
        if column.name == "node_feat"
        else column
        for column in info.columns
    )
    info = msgspec.structs.replace(info, columns=columns)
    assert error_message(table.with_columns(node={"node_feat": codes}), info) == (
        "column `node_feat` has codes of `tail` without a category name"
    )


def test_labelled_nodes_are_accepted():
    table, info = node_level()
    assert validate_table(table, info) is table


def test_graphs_of_node_labelled_corpora_must_have_the_split_all():
    table, info = node_level()
    table = table.with_columns(graph={"split": np.array([5, 0], dtype=np.int8)})
    assert error_message(table, info) == (
        "graph 6: graphs of a node-labelled corpus must have the split `all`; the splits of nodes "
        "are in `node_split`"
    )


@pytest.mark.parametrize(
    ("name", "values", "text"),
    [
        ("node_env_id", ints(0, 0, 0, 1),
         "graph 6, node 1: environment 1 is not one of the 1 environments of the corpus"),
        ("node_label", ints(0, 1, 2, -1),
         "graph 6, node 0: label 2 is outside the 2 classes 0..1 (1 such labels in total)"),
        ("node_label", ints(0, 0, -1, -1),
         "graph 5, node 1: label 0 does not match `y` [0.0, 1.0]"),
    ],
)  # fmt: skip
def test_an_invalid_node_is_reported_with_its_graph(name, values, text):
    table, info = node_level()
    assert error_message(table.with_columns(node={name: values}), info) == text


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"index": [0, 2, 1], "value": [1, 1, NAN]},
         "graph 1: node 1 has NaN or infinity in `node_feat_value`. "
         "Clean the source data; gsx does not impute features."),
        ({"index": [0, 2, 1], "value": [1, 1, 1], "value_ptr": (0, 1, 2, 3)},
         "`node_feat_index` and `node_feat_value` must have rows of equal length"),
        ({"index": [0, 3, 1], "value": [1, 1, 1]},
         "`node_feat_index` is outside the 3 features of the corpus"),
        ({"index": [-1, 2, 1], "value": [1, 1, 1]},
         "`node_feat_index` is outside the 3 features of the corpus"),
        ({"index": [0, 2, 2], "value": [1, 1, 1], "ptr": (0, 0, 1, 3)},
         "`node_feat_index` of node 2 of the table is not strictly increasing"),
        ({"index": [2, 1, 1], "value": [1, 1, 1]},
         "`node_feat_index` of node 0 of the table is not strictly increasing"),
    ],
)  # fmt: skip
def test_invalid_sparse_features_are_refused(parts, text):
    assert error_message(*sparse(**parts)) == text


def test_a_column_missing_from_the_schema_is_refused():
    table, info = tiny_table(), tiny_info()
    odd = table.with_columns(graph={"mood": np.zeros(len(table), np.int8)})
    with pytest.raises(TableError) as error:
        validate_table(odd, info)
    assert str(error.value) == (
        "column `mood` is not in the schema of the corpus and would be lost"
    )


def test_a_graph_id_used_twice_is_refused():
    table, info = tiny_table(), tiny_info()
    ids = np.full(len(table), 7, np.int64)
    with pytest.raises(TableError, match="graph_id 7 belongs to more than one graph"):
        validate_table(table.with_columns(graph={"graph_id": ids}), info)
