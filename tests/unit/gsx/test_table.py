from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsx.errors import TableError
from gsx.ragged import Ragged, decode_texts
from gsx.table import GraphTable, concat, rechunk
from tests.support.strategies import tables, tiny_table


def graphs_of(table):
    """Return every graph as lists, so that tables are compared without methods of GraphTable."""
    return [
        {
            "nodes": int(table.num_nodes[row]),
            "edges": int(table.num_edges[row]),
            **{
                name: rows_between(values, *ends)
                for axis, ends in (
                    ("graph", (row, row + 1)),
                    ("node", table.node_ptr[row : row + 2].tolist()),
                    ("edge", table.edge_ptr[row : row + 2].tolist()),
                )
                for name, values in table.columns(axis).items()
            },
        }
        for row in range(len(table))
    ]


def rows_between(values, start, stop):
    if isinstance(values, Ragged):
        ends = values.ptr[start : stop + 1].tolist()
        return [values.values[a:b].tobytes() for a, b in pairwise(ends)]
    return values[start:stop].tobytes()


def test_a_table_counts_graphs_nodes_and_edges():
    table = tiny_table()
    assert len(table) == 3
    assert table.num_nodes.tolist() == [3, 1, 0]
    assert table.num_edges.tolist() == [4, 1, 0]
    assert (table.total_nodes, table.total_edges) == (4, 5)


def test_a_table_prints_its_sizes_and_columns():
    table = tiny_table().select(["y", "node_feat"])
    assert repr(table) == "GraphTable(3 graphs, 4 nodes, 5 edges: y, node_feat, edge_src, edge_dst)"


def test_a_slice_has_the_graphs_between_its_ends():
    part = tiny_table().slice(1, 3)
    assert part.graph["graph_id"].tolist() == [11, 12]
    assert part.node_ptr.tolist() == [0, 1, 1]
    assert part.edge_ptr.tolist() == [0, 1, 1]
    assert part.node["node_feat"].tolist() == [[7, 8]]
    assert part.edge["edge_src"].tolist() == [0]
    assert decode_texts(part.lists("graph", "smiles")) == ["é", ""]


def test_a_slice_shares_memory_with_its_table():
    table = tiny_table()
    part = table.slice(0, 2)
    assert np.shares_memory(part.node["node_feat"], table.node["node_feat"])
    assert np.shares_memory(part.edge["edge_attr"], table.edge["edge_attr"])
    assert np.shares_memory(part.graph["smiles"].values, table.graph["smiles"].values)


def test_pointers_of_a_slice_are_its_own():
    table = tiny_table()
    part = table.slice(0, 2)
    part.node_ptr[:] = 99
    assert table.node_ptr.tolist() == [0, 3, 4, 4]


@pytest.mark.parametrize(
    ("start", "stop", "ids"),
    [(0, 99, [10, 11, 12]), (-1, 3, [12]), (2, 1, []), (3, 3, []), (1, -1, [11])],
)
def test_slice_indices_follow_python_lists(start, stop, ids):
    assert tiny_table().slice(start, stop).graph["graph_id"].tolist() == ids


def test_take_respects_order_and_repetitions():
    table = tiny_table().take(np.array([2, 1, 0, 1]))
    assert table.graph["graph_id"].tolist() == [12, 11, 10, 11]
    assert table.node_ptr.tolist() == [0, 0, 1, 4, 5]
    assert table.edge["edge_src"].tolist() == [0, 0, 1, 1, 2, 0]
    assert decode_texts(table.lists("graph", "smiles")) == ["", "é", "CCO", "é"]


def test_take_copies_memory():
    table = tiny_table()
    taken = table.take(np.array([0, 1, 2]))
    taken.node["node_feat"][:] = 0
    assert table.node["node_feat"][0].tolist() == [1, 2]


def test_no_graphs_can_be_taken():
    table = tiny_table().take([])
    assert len(table) == 0
    assert table.node["node_feat"].shape == (0, 2)


def test_a_filter_keeps_graphs_where_the_mask_is_true():
    kept = tiny_table().filter(np.array([True, False, True]))
    assert kept.graph["graph_id"].tolist() == [10, 12]


def test_selected_columns_never_lose_the_edges():
    table = tiny_table().select(["label"])
    assert [*table.graph, *table.node, *table.edge] == ["label", "edge_src", "edge_dst"]


def test_new_columns_replace_old_ones_and_leave_the_source_as_it_was():
    table = tiny_table()
    changed = table.with_columns(graph={"label": np.array([1, 1, 1])}, node={"a": np.arange(4)})
    assert changed.graph["label"].tolist() == [1, 1, 1]
    assert changed.node["a"].tolist() == [0, 1, 2, 3]
    assert table.graph["label"].tolist() == [0, -1, -1]
    assert "a" not in table.node


def test_edge_graph_is_the_graph_of_every_edge():
    assert tiny_table().edge_graph().tolist() == [0, 0, 0, 0, 1]


@settings(max_examples=60)
@given(tables(), st.data())
def test_a_slice_holds_the_graphs_of_its_rows(example, data):
    table, _ = example
    start = data.draw(st.integers(0, len(table)))
    stop = data.draw(st.integers(start, len(table)))
    assert graphs_of(table.slice(start, stop).validate()) == graphs_of(table)[start:stop]


@settings(max_examples=60)
@given(tables(min_graphs=1), st.data())
def test_take_equals_selecting_graphs_one_by_one(example, data):
    table, _ = example
    rows = data.draw(st.lists(st.integers(0, len(table) - 1), max_size=8))
    graphs = graphs_of(table)
    assert graphs_of(table.take(rows).validate()) == [graphs[row] for row in rows]


@settings(max_examples=60)
@given(tables(), st.data())
def test_slices_of_a_table_concatenate_to_it(example, data):
    table, _ = example
    cuts = sorted(data.draw(st.lists(st.integers(0, len(table)), max_size=3)))
    ends = [0, *cuts, len(table)]
    whole = concat([table.slice(a, b) for a, b in pairwise(ends)])
    assert whole.equals(table)


@given(tables(), st.lists(st.integers(0, 6), max_size=4), st.integers(1, 5))
def test_rechunk_yields_tables_of_equal_size(example, ends, size):
    table, _ = example
    bounds = [0, *sorted(min(end, len(table)) for end in ends), len(table)]
    actual = list(rechunk((table.slice(*pair) for pair in pairwise(bounds)), size))
    assert concat(actual).equals(table)
    assert [len(part) for part in actual[:-1]] == [size] * (len(actual) - 1)
    assert 0 < len(actual[-1]) <= size or (len(table) == 0 and len(actual) == 1)


@settings(max_examples=60)
@given(tables(min_graphs=2, max_graphs=5), st.data())
def test_a_permutation_and_its_inverse_give_the_table_back(example, data):
    table, _ = example
    order = np.array(data.draw(st.permutations(range(len(table)))))
    assert table.take(order).take(np.argsort(order)).equals(table)


def test_a_table_equals_one_with_the_same_content_and_nan_equals_nan():
    assert tiny_table().equals(tiny_table())


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.slice(0, 2),
        lambda table: table.take([1, 0, 2]),
        lambda table: table.with_columns(graph={"label": np.zeros(3, dtype=np.int32)}),
        lambda table: table.with_columns(graph={"label": table.graph["label"].astype(np.int64)}),
        lambda table: table.with_columns(graph={"smiles": np.zeros(3)}),
        lambda table: table.with_columns(node={"more": np.zeros(4)}),
        lambda table: table.select(["label"]),
        lambda table: GraphTable(
            np.array([0, 2, 4, 4]), table.edge_ptr, table.graph, table.node, table.edge
        ),
    ],
    ids=["fewer", "order", "value", "type", "lists", "extra", "missing", "pointers"],
)
def test_a_changed_table_is_not_equal(change):
    assert not change(tiny_table()).equals(tiny_table())


def test_one_table_concatenates_to_itself():
    table = tiny_table()
    assert concat([table]) is table


def test_no_tables_cannot_be_concatenated():
    with pytest.raises(TableError) as error:
        concat([])
    assert str(error.value) == "concat needs at least one table"


def test_tables_with_other_columns_cannot_be_concatenated():
    table = tiny_table()
    with pytest.raises(TableError) as error:
        concat([table, table.with_columns(node={"more": np.zeros(4), "and": np.zeros(4)})])
    assert str(error.value) == "cannot concatenate: node columns differ in and, more"


def test_dense_and_ragged_columns_cannot_be_concatenated():
    table = tiny_table()
    with pytest.raises(TableError) as error:
        concat([table, table.with_columns(graph={"smiles": np.zeros(3)})])
    assert str(error.value) == ("cannot concatenate: `smiles` is ragged in some tables only")


def test_a_missing_dense_column_is_reported_with_the_available_ones():
    with pytest.raises(TableError) as error:
        tiny_table().dense("edge", "weight")
    assert str(error.value) == (
        "no dense edge column `weight` in this table; it has: edge_src, edge_dst, edge_attr"
    )


def test_dense_and_ragged_columns_are_not_interchangeable():
    table = tiny_table().select(["smiles"])
    with pytest.raises(TableError) as error:
        table.dense("graph", "smiles")
    assert str(error.value) == "no dense graph column `smiles` in this table; it has: smiles"
    with pytest.raises(TableError) as error:
        table.lists("edge", "edge_src")
    assert str(error.value) == "no ragged column `edge_src` on the edge axis of this table"


def broken(**parts):
    table = tiny_table()
    fields = ("node_ptr", "edge_ptr", "graph", "node", "edge")
    return GraphTable(**{field: parts.get(field, getattr(table, field)) for field in fields})


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (broken(node_ptr=np.array([1, 3, 4, 4])),
         "node_ptr must be a one-dimensional pointer array that starts at 0"),
        (broken(node_ptr=np.array([], dtype=np.int64)),
         "node_ptr must be a one-dimensional pointer array that starts at 0"),
        (broken(edge_ptr=np.zeros((4, 1), dtype=np.int64)),
         "edge_ptr must be a one-dimensional pointer array that starts at 0"),
        (broken(edge_ptr=np.array([0, 5, 4, 5])),
         "edge_ptr decreases at row 1, from 5 to 4"),
        (broken(edge_ptr=np.array([0, 4, 5])),
         "node_ptr describes 3 graphs, edge_ptr 2"),
        (broken(node={"a": np.zeros(3)}),
         "node column `a` has 3 rows; the table has 4 nodes"),
        (broken(graph={"a": np.zeros(4)}),
         "graph column `a` has 4 rows; the table has 3 graphs"),
        (broken(graph={"a": Ragged(np.array([0, 1, 2]), np.zeros(2))}),
         "graph column `a` has 2 rows; the table has 3 graphs"),
        (broken(graph={"a": Ragged(np.array([0, 2, 1, 2]), np.zeros(2))}),
         "pointers of `a` decreases at row 1, from 2 to 1"),
        (broken(graph={"a": Ragged(np.array([0, 1, 1, 2]), np.zeros(3))}),
         "`a` has 3 values, but its pointers end at 2"),
        (broken(edge={}),
         "no dense edge column `edge_src` in this table; it has: none"),
        (broken(edge={"edge_src": np.array([0, 1, 3, 2, 1]), "edge_dst": np.zeros(5)}),
         "graph 10: edge 2 has edge_src 3, but the graph has 3 nodes (2 such edges in total)"),
        (broken(graph={}, edge={"edge_src": np.zeros(5), "edge_dst": np.array([0, 0, 0, 0, -1])}),
         "graph at row 1: edge 0 has edge_dst -1, but the graph has 1 nodes "
         "(1 such edges in total)"),
    ],
)  # fmt: skip
def test_an_inconsistent_structure_is_refused(table, text):
    with pytest.raises(TableError) as error:
        table.validate()
    assert str(error.value) == text


def test_validate_returns_a_valid_table():
    table = tiny_table()
    assert table.validate() is table
