import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from gsx.errors import UsageError
from gsx.pyg import CorpusDataset, collate, data_list, pyg_columns
from gsx.ragged import Ragged
from gsx.schema import corpus_columns
from gsx.table import GraphTable
from tests.support.strategies import tables, tiny_info, tiny_table


def assert_same(left, right):
    """Compare type, dtype, shape, layout and content of two attributes; NaN equals NaN."""
    assert type(left) is type(right)
    if not isinstance(left, torch.Tensor):
        assert left == right
        return
    assert (left.dtype, left.shape, left.layout) == (right.dtype, right.shape, right.layout)
    dense = [tensor.to_dense() for tensor in (left, right)]
    torch.testing.assert_close(*dense, rtol=0, atol=0, equal_nan=True)


def keys_of(data):
    """Return the attribute names in order; ``Data.keys`` loses the order."""
    return list(data._store.keys())


def assert_same_data(left, right):
    assert keys_of(left) == keys_of(right)
    for key in keys_of(left):
        assert_same(left[key], right[key])


def assert_same_batch(left, right):
    assert type(left) is type(right)
    assert_same_data(left, right)
    assert left.num_graphs == right.num_graphs
    assert left.num_nodes == right.num_nodes
    for mine, theirs in (
        (left._slice_dict, right._slice_dict),
        (left._inc_dict, right._inc_dict),
    ):
        assert list(mine) == list(theirs)
        for key in mine:
            assert_same(mine[key], theirs[key])


def for_pyg(table, info):
    """Return the table with the columns of PyG objects: standard, and dense or text extras."""
    extras = [c.name for c in info.columns if not c.ragged or c.dtype == "text"]
    return table.select(pyg_columns(info, extras))


def sparse_example():
    """Return graphs of two and one node with sparse features, and their schema."""
    info = msgspec.structs.replace(
        tiny_info(),
        num_features=4,
        columns=corpus_columns(outputs=2, num_features=4, sparse=True),
    )
    ptr = np.array([0, 2, 2, 3])
    table = GraphTable(
        node_ptr=np.array([0, 2, 3]),
        edge_ptr=np.array([0, 1, 1]),
        graph={"label": np.array([1, 0], dtype=np.int32)},
        node={
            "node_feat_index": Ragged(ptr, np.array([0, 3, 1], dtype=np.int32)),
            "node_feat_value": Ragged(ptr, np.array([1, 2, 3], dtype=np.float32)),
        },
        edge={"edge_src": np.array([0]), "edge_dst": np.array([1])},
    )
    return table, info


def nodes_example():
    """Return one graph of three nodes with labels, environments and splits of nodes."""
    return GraphTable(
        node_ptr=np.array([0, 3]),
        edge_ptr=np.array([0, 0]),
        graph={"env_id": np.array([7], dtype=np.int32)},
        node={
            "node_y": np.array([[1, 0], [0, 1], [0, 1]], dtype=np.float32),
            "node_label": np.array([0, 1, 1], dtype=np.int32),
            "node_env_id": np.array([0, 1, -1], dtype=np.int32),
            "node_domain_id": np.array([0, 1, 2], dtype=np.int32),
            "node_split": np.array([0, 3, 4], dtype=np.int8),
        },
        edge={"edge_src": np.zeros(0, np.int32), "edge_dst": np.zeros(0, np.int32)},
    )


def test_a_batch_of_the_tiny_table_has_the_expected_tensors():
    batch = collate(tiny_table().select(["node_feat", "y", "label", "graph_id", "smiles"]))
    assert keys_of(batch) == [
        "edge_index", "x", "graph_id", "y", "label", "smiles", "batch", "ptr",
    ]  # fmt: skip
    assert batch.edge_index.tolist() == [[0, 1, 1, 2, 3], [1, 0, 2, 1, 3]]
    assert batch.x.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert batch.y[:2].tolist() == [[1, 0], [0.25, 0.75]]
    assert batch.label.tolist() == [0, -1, -1]
    assert batch.graph_id.tolist() == [10, 11, 12]
    assert batch.smiles == ["CCO", "é", ""]
    assert batch.batch.tolist() == [0, 0, 0, 1]
    assert batch.ptr.tolist() == [0, 3, 4, 4]


@settings(max_examples=60)
@given(tables(min_graphs=1, sparse=False))
def test_a_batch_equals_the_one_pyg_makes_of_single_graphs(example):
    table = for_pyg(*example)
    assert_same_batch(collate(table), Batch.from_data_list(data_list(table)))


@settings(max_examples=60)
@given(tables(min_graphs=1, sparse=False))
def test_a_batch_splits_into_the_graphs_it_was_made_of(example):
    table = for_pyg(*example)
    separate = collate(table).to_data_list()
    for left, right in zip(separate, data_list(table), strict=True):
        assert_same_data(left, right)


@settings(max_examples=60)
@given(tables(min_graphs=1))
def test_a_batch_without_features_has_num_nodes(example):
    table, info = example
    table = table.select(set(pyg_columns(info)) - {"node_feat", "node_feat_index"})
    batch, expected = collate(table), Batch.from_data_list(data_list(table))
    assert "x" not in batch
    assert_same_batch(batch, expected)
    sizes = [data.num_nodes for data in batch.to_data_list()]
    assert sizes == table.num_nodes.tolist()


@pytest.mark.filterwarnings("ignore:Sparse")  # PyG's own concatenation, not ours
@settings(max_examples=50)
@given(tables(min_graphs=1, sparse=True))
def test_a_batch_of_sparse_features_equals_the_one_pyg_makes(example):
    table, info = example
    table = for_pyg(table, info)
    batch = collate(table, num_features=info.num_features)
    assert batch.x.shape == (table.total_nodes, info.num_features)
    expected = Batch.from_data_list(data_list(table, num_features=info.num_features))
    assert_same_batch(batch, expected)


def test_sparse_features_are_at_their_indices():
    table, info = sparse_example()
    x = collate(table, num_features=info.num_features).x
    assert x.layout == torch.sparse_csr
    assert x.to_dense().tolist() == [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]]


def test_sparse_features_are_as_wide_as_the_largest_index_where_no_width_is_given():
    assert collate(sparse_example()[0]).x.shape == (3, 4)


def test_sparse_features_outside_the_bounds_are_refused():
    table, _ = sparse_example()
    with pytest.raises(RuntimeError, match="col_indices"):
        collate(table, num_features=3)


def test_pyg_itself_cannot_split_a_batch_of_sparse_features():
    """If this fails, PyG supports it: compare ``to_data_list`` as for dense features."""
    table, info = sparse_example()
    graphs = data_list(table, num_features=info.num_features)
    for batch in (collate(table, num_features=4), Batch.from_data_list(graphs)):
        with pytest.raises(NotImplementedError, match="index_select"):
            batch.to_data_list()


def test_a_batch_of_no_graphs_is_empty():
    batch = collate(tiny_table().slice(0, 0).select(["node_feat", "y"]))
    assert batch.num_graphs == 0
    assert batch.x.shape == (0, 2)
    assert batch.edge_index.shape == (2, 0)
    assert batch.to_data_list() == []


def test_nodes_get_a_mask_per_split_under_the_names_pyg_uses():
    data = data_list(nodes_example())[0]
    assert data.train_mask.tolist() == [True, False, False]
    assert data.id_val_mask.tolist() == [False, False, False]
    assert data.id_test_mask.tolist() == [False, False, False]
    assert data.val_mask.tolist() == [False, True, False]
    assert data.test_mask.tolist() == [False, False, True]


def test_labels_and_environments_of_nodes_have_the_short_names():
    data = data_list(nodes_example())[0]
    assert data.y.tolist() == [[1, 0], [0, 1], [0, 1]]
    assert data.label.tolist() == [0, 1, 1]
    assert data.num_nodes == 3


def test_environments_of_nodes_are_not_hidden_by_that_of_their_graph():
    assert data_list(nodes_example())[0].env_id.tolist() == [0, 1, -1]
    assert collate(nodes_example()).env_id.tolist() == [0, 1, -1]


def test_integers_become_int64_and_floats_keep_their_type():
    table = tiny_table().select(["node_feat", "label", "y"])
    table = table.with_columns(node={"kind": np.array([1, 2, 3, 4], dtype=np.int8)})
    batch = collate(table)
    assert (batch.kind.dtype, batch.label.dtype) == (torch.int64, torch.int64)
    assert (batch.x.dtype, batch.y.dtype) == (torch.float32, torch.float32)


def test_a_dot_in_a_column_becomes_an_underscore():
    batch = collate(tiny_table().select(["provenance.partner", "provenance.stream"]))
    assert batch.provenance_partner.tolist() == [-1, -1, -1]
    assert batch.provenance_stream == ["", "", ""]


def test_pyg_objects_get_the_standard_and_the_extra_columns():
    assert pyg_columns(tiny_info(), ["smiles"]) == [
        "edge_attr", "env_id", "graph_id", "label", "node_feat", "smiles", "y",
    ]  # fmt: skip


def test_a_batch_trains_after_moving_and_copying():
    batch = collate(tiny_table().select(["node_feat", "edge_attr"])).to("cpu").clone()
    assert (batch.num_nodes, batch.num_edges, batch.num_node_features) == (4, 5, 2)
    assert batch[1].x.tolist() == [[7, 8]]


def test_editing_a_batch_leaves_read_only_arrays_as_they_were():
    table = tiny_table().select(["node_feat", "edge_attr", "y", "graph_id"])
    arrays = [*table.graph.values(), *table.node.values(), *table.edge.values()]
    arrays += [table.node_ptr, table.edge_ptr]
    for array in arrays:
        array.flags.writeable = False
    before = [array.tobytes() for array in arrays]
    batch = collate(table)
    for key in ("x", "edge_attr", "y", "graph_id", "edge_index", "batch", "ptr"):
        batch[key].zero_()
    assert [array.tobytes() for array in arrays] == before


def test_editing_the_pointers_of_a_batch_does_not_spoil_its_graphs():
    batch = collate(tiny_table().select(["node_feat"]))
    batch.ptr.zero_()
    assert [len(data.x) for data in batch.to_data_list()] == [3, 1, 0]


def dataset(names=("node_feat", "y", "label", "smiles")):
    return CorpusDataset(tiny_table().select(names), tiny_info())


@settings(max_examples=40)
@given(tables(min_graphs=1))
def test_a_dataset_holds_the_graphs_of_its_table(example):
    table, info = example
    table = for_pyg(table, info)
    graphs = CorpusDataset(table, info)
    expected = data_list(table, num_features=info.num_features)
    assert len(graphs) == len(table)
    for left, right in zip(graphs, expected, strict=True):
        assert_same_data(left, right)


@pytest.mark.parametrize("count", [1, 2])
def test_graphs_of_a_dataset_without_features_have_num_nodes_and_texts(count):
    table = tiny_table().slice(0, count).select(["smiles"])
    first = CorpusDataset(table, tiny_info())[0]
    assert (first.num_nodes, first.smiles) == (3, "CCO")


def test_a_dataset_may_be_empty():
    assert len(CorpusDataset(tiny_table().slice(0, 0).select(["node_feat"]), tiny_info())) == 0


def test_a_dataset_has_num_classes_and_num_features():
    graphs = dataset()
    assert (graphs.num_classes, graphs.num_features, graphs.num_node_features) == (2, 2, 2)


def test_a_sparse_dataset_has_num_features():
    assert CorpusDataset(*sparse_example()).num_features == 4


def test_a_dataset_is_sliced_and_indexed_like_any_of_pyg():
    graphs = dataset()
    assert [data.smiles for data in graphs[1:]] == ["é", ""]
    assert [data.smiles for data in graphs[[2, 0]]] == ["", "CCO"]
    assert [data.smiles for data in graphs[torch.tensor([True, False, True])]] == ["CCO", ""]
    assert graphs[-1].num_nodes == 0


def test_a_shuffled_dataset_has_the_same_graphs():
    torch.manual_seed(0)
    shuffled, order = dataset().shuffle(return_perm=True)
    texts = ["CCO", "é", ""]
    assert [data.smiles for data in shuffled] == [texts[i] for i in order]


def test_a_copy_of_selected_graphs_contains_only_these_graphs():
    copy = dataset().copy([1])
    assert len(copy) == 1
    assert copy[0].x.tolist() == [[7, 8]]


def test_a_transform_of_a_dataset_is_applied():
    graphs = dataset()
    graphs.transform = lambda data: Data(x=data.x * 2)
    assert graphs[1].x.tolist() == [[14, 16]]


@settings(max_examples=20)
@given(tables(min_graphs=2, sparse=False))
def test_the_loader_of_pyg_makes_the_same_batches_from_a_dataset(example):
    table, info = example
    table = for_pyg(table, info)
    batches = list(DataLoader(CorpusDataset(table, info), batch_size=2))
    assert len(batches) == -(-len(table) // 2)
    for number, batch in enumerate(batches):
        assert_same_batch(batch, collate(table.slice(2 * number, 2 * number + 2)))


@pytest.mark.filterwarnings("ignore:Sparse")
def test_the_loader_of_pyg_takes_sparse_datasets():
    batch = next(iter(DataLoader(CorpusDataset(*sparse_example()), batch_size=2)))
    assert batch.x.to_dense().tolist() == [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]]
    assert batch.edge_index.tolist() == [[0], [1]]


@pytest.mark.parametrize("name", ["provenance.parents", "node_feat_index"])
def test_a_ragged_column_is_refused_with_an_alternative(name):
    _, info = sparse_example()
    with pytest.raises(UsageError) as error:
        pyg_columns(info, [name])
    assert str(error.value) == (
        f"column `{name}` is ragged and cannot be part of a PyG object. "
        f'Use `corpus.table(columns=["{name}"])`.'
    )


def test_ragged_columns_are_left_out_of_batches():
    batch = collate(tiny_table())
    assert "provenance_parents" not in batch
    assert batch.provenance_stream == ["", "", ""]
