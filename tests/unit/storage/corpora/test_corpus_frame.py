"""Selection by origin, slices, strings and data frames of a corpus."""

import numpy as np
import pytest

import gsx
from gsx.errors import UsageError
from gsx.schema import ORIGINS


@pytest.fixture(scope="module")
def augmented(tmp_path_factory):
    """A corpus of 36 training graphs, 36 copies without some edges, and 24 held-out graphs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        options = {"store": tmp_path_factory.mktemp("store"), "shard_graphs": 20, "quiet": True}
        source = gsx.prepare("motif-size", num_graphs=60, **options)
        yield gsx.augment(source, "drop-edge", **options)


def ids(tables):
    return sorted(np.concatenate([table.graph_id.numpy() for table in tables]).tolist())


@pytest.mark.parametrize("cache", ["never", "always"])
def test_origin_selects_graphs_everywhere(augmented, cache):
    source = augmented.table(split="train", origin="source")
    assert len(source) == 36
    assert set(source.dense("graph", "origin").tolist()) == {ORIGINS.index("source")}
    expected = sorted(source.dense("graph", "graph_id").tolist())
    loader = augmented.loader(10, split="train", origin="source", cache=cache)
    assert len(loader) == 4
    assert ids(loader) == expected
    shuffled = augmented.loader(
        10, split="train", origin=["source"], shuffle=True, cache=cache, columns=["origin"]
    )
    assert ids(shuffled) == expected
    both = augmented.loader(10, split="train", origin=["source", "dropedge"], cache=cache)
    assert sum(batch.num_graphs for batch in both) == 72
    dataset = augmented.to_pyg(split="train", origin="dropedge")
    assert len(dataset) == 36
    assert not {int(data.graph_id) for data in dataset} & set(expected)


def test_origin_and_environment_are_combined(augmented):
    both = augmented.table(split="train", env=[0], origin="dropedge")
    env = augmented.table(split="train", env=[0])
    origins = env.dense("graph", "origin")
    assert len(both) == (origins == ORIGINS.index("dropedge")).sum() > 0
    assert len(both) < len(env)


@pytest.mark.parametrize("cache", ["never", "always"])
def test_ranks_share_the_graphs_of_an_origin(augmented, cache):
    parts = [
        augmented.loader(5, split="train", origin="dropedge", shuffle=True, rank=rank, world_size=2,
                         cache=cache)
        for rank in range(2)
    ]  # fmt: skip
    assert len(parts[0]) == len(parts[1])
    expected = augmented.table(split="train", origin="dropedge").dense("graph", "graph_id")
    assert ids([batch for part in parts for batch in part]) == sorted(expected.tolist())


def test_a_loader_resumes_only_with_the_same_origin(augmented):
    loader = augmented.loader(10, split="train", origin="source")
    batches = iter(loader)
    first = [next(batches), next(batches)]
    state = loader.state_dict()
    resumed = augmented.loader(10, split="train", origin="source")
    resumed.load_state_dict(state)
    expected = augmented.table(split="train", origin="source").dense("graph", "graph_id")
    assert ids([*first, *resumed]) == sorted(expected.tolist())
    other = augmented.loader(10, split="train", origin="dropedge")
    with pytest.raises(UsageError, match="origin=\\['source'\\]"):
        other.load_state_dict(state)


def test_the_state_of_a_loader_without_origin_is_as_before(augmented):
    assert "origin" not in augmented.loader(10).state_dict()["order"]


@pytest.mark.parametrize("method", ["table", "to_pyg", "to_pandas"])
def test_an_unknown_origin_is_guessed(augmented, method):
    with pytest.raises(UsageError, match=r"no origin `sorce`\. Did you mean `source`\?"):
        getattr(augmented, method)(origin="sorce")
    with pytest.raises(UsageError, match="origin must be a name or a list of names"):
        getattr(augmented, method)(origin=3)
    with pytest.raises(UsageError, match="split must be a name or a list of names"):
        getattr(augmented, method)(split=3)


def test_slices_are_lists_of_graphs(augmented):
    assert [int(data.graph_id) for data in augmented[0:3]] == [
        int(augmented[index].graph_id) for index in range(3)
    ]
    assert augmented[-2:][1].num_nodes == augmented[len(augmented) - 1].num_nodes
    assert augmented[5:5] == []
    assert len(augmented[::40]) == 3


def test_a_corpus_knows_its_facts(augmented):
    assert augmented.name == "motif-size"
    assert augmented.metric == "accuracy"
    assert augmented.num_classes == 3
    assert augmented.path == augmented.artifact.location.url
    assert augmented.key[:32] in augmented.path


def test_a_frame_has_one_row_per_graph(augmented):
    frame = augmented.to_pandas(split="train", origin="dropedge")
    assert len(frame) == 36
    assert set(frame["origin"]) == {"dropedge"}
    assert set(frame["split"]) == {"train"}
    table = augmented.table(split="train", origin="dropedge")
    assert frame["num_nodes"].tolist() == table.num_nodes.tolist()
    assert frame["y_house"].tolist() == table.dense("graph", "y")[:, 0].tolist()
    assert not [name for name in frame if name.startswith(("provenance", "node_", "edge_"))]
    small = augmented.to_pandas(columns=["graph_id", "provenance.parents"])
    assert list(small) == ["graph_id", "provenance.parents"]
    assert len(small) == len(augmented)
    assert small["provenance.parents"].iloc[-1].tolist() == []
    with pytest.raises(UsageError, match="`node_feat` has one row per node"):
        augmented.to_pandas(columns=["node_feat"])


def test_categories_are_strings(augmented):
    assert augmented.strings("split", origin="dropedge") == ["train"] * 36
    with pytest.raises(UsageError, match="`graph_id` has no strings"):
        augmented.strings("graph_id")


def test_a_frame_of_labelled_nodes_has_one_row_per_node(tmp_path):
    corpus = gsx.prepare("cbas-color", store=tmp_path, quiet=True)
    frame = corpus.to_pandas(split="ood_test")
    assert len(frame) == corpus.nodes["ood_test"]
    assert set(frame["split"]) == {"ood_test"}
    assert list(frame)[:3] == ["graph_id", "node", "origin"]
    table = corpus.table()
    rows = frame["node"].to_numpy()
    assert frame["label"].tolist() == table.dense("node", "node_label")[rows].tolist()
    env = corpus.to_pandas(env=0)
    assert set(env["env_id"]) == {0}
    with pytest.raises(UsageError, match="no nodes in the split `tset`"):
        corpus.to_pandas(split="tset")


def test_a_frame_without_pandas_is_explained(augmented, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="to_pandas needs pandas, which is not installed"):
        augmented.to_pandas()
