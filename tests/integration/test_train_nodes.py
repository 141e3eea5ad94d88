"""Training on node-level corpora."""

import json

import msgspec
import numpy as np
import pytest

from gsx.errors import StageError, UsageError
from gsx.ragged import Ragged, pointers
from gsx.schema import SPLITS, CorpusInfo, Environment, Feature, corpus_columns
from gsx.seeds import rng
from gsx.stages.train.node_data import node_backbone_shape
from gsx.stages.train.stage import TrainConfig, resolve
from gsx.storage.artifacts.publish import Identity, build_artifact
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus_writer import plan_shards, write_corpus
from tests.support.artifacts import gsx as command
from tests.support.run_stages import run_recipe, run_stage, stop_training

SMALL = {"source": "prepare", "backbone": "gcn", "width": 16, "epochs": 3, "batch_size": 200,
         "samples": 3, "coverage": 5}  # fmt: skip


@pytest.fixture(scope="module")
def cbas(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        folder = tmp_path_factory.mktemp("store")
        return run_recipe(folder, '[prepare]\ndataset = "cbas-color"\n')["prepare"]


def node_corpus(folder, change=lambda table: table, *, info_change=lambda info: info):
    """Write the CBAS corpus with a changed table and description."""
    from gsx.stages.prepare.dataset import DatasetRequest
    from gsx.stages.prepare.synthetic.cbas import open_cbas

    source = open_cbas(DatasetRequest(name="cbas-color", num_graphs=None, seed=0, raw={}))
    table, info = change(source.build("all", 0, 1)), info_change(source.info)

    def produce(draft):
        return write_corpus(draft, info, plan_shards({"all": 1}, 9), lambda _: table)

    names = {"change": change.__name__, "info": info_change.__name__}
    identity = Identity(kind="corpus", stage="prepare", stage_version=1, config=names)
    return build_artifact(Store.at(folder), identity, produce).artifact


def train(folder, corpus, **options):
    return run_stage(folder, "train", {**SMALL, **options}, {"prepare": corpus})


def weights(artifact, name="weights-last.safetensors"):
    return artifact.manifest.files[name].sha256


def test_the_position_of_a_node_is_learned(cbas, tmp_path):
    model = train(tmp_path, cbas, epochs=15, batch_size=1000, samples=10)
    scores = model.manifest.summary["quality"]["selection"]
    assert scores["id_val"]["id_test"] > 60
    assert sorted(scores["ood_val"]) == ["epoch", "id_test", "id_val", "ood_test", "ood_val"]
    assert model.manifest.counts == {"nodes": 420}
    shape = json.loads(model.location.read_bytes("model.json", limit=1 << 20))["shape"]
    assert (shape["backbone"], shape["features"], shape["layers"]) == ("gcn", 4, 3)


@pytest.mark.parametrize("name", ["vrex", "irm", "groupdro", "coral", "dann"])
def test_algorithms_compare_environments_of_nodes(cbas, tmp_path, name):
    erm = train(tmp_path, cbas)
    model = train(tmp_path, cbas, learner=name)
    assert weights(erm) != weights(model)
    assert np.isfinite(model.manifest.summary["quality"]["selection"]["last"]["ood_test"])


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(cbas, tmp_path):
    first = train(tmp_path / "a", cbas, dropout=0.5, average=0.9)
    again = train(tmp_path / "b", cbas, dropout=0.5, average=0.9)
    other = train(tmp_path / "c", cbas, dropout=0.5, average=0.9, seed=1)
    assert weights(first) == weights(again) != weights(other)


def test_a_resumed_run_gives_the_same_bytes(cbas, tmp_path, monkeypatch):
    whole = train(tmp_path / "a", cbas, dropout=0.5)
    started_epochs = stop_training(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "b", cbas, dropout=0.5)
    assert train(tmp_path / "b", cbas, dropout=0.5).manifest.digest == whole.manifest.digest
    assert started_epochs == [0, 1, 1, 2]


def other_labels(table):
    """Give held-out nodes random labels."""
    split, label = table.node["node_split"], table.node["node_label"].copy()
    held_out = split != SPLITS.index("train")
    label[held_out] = rng(0, "tests").integers(0, 4, held_out.sum())
    y = np.eye(4, dtype=np.float32)[label]
    return table.with_columns(node={"node_label": label, "node_y": y})


@pytest.mark.parametrize("name", ["erm", "eerm", "srgnn"])
def test_held_out_labels_do_not_affect_weights(tmp_path, name):
    plain = train(tmp_path, node_corpus(tmp_path), learner=name)
    changed = train(tmp_path, node_corpus(tmp_path, other_labels), learner=name)
    assert weights(plain) == weights(changed)
    assert plain.manifest.summary["quality"] != changed.manifest.summary["quality"]


def with_sparse_features(table):
    """Store the colors as sparse features."""
    dense = table.node["node_feat"]
    row, column = np.nonzero(dense)
    ptr = pointers(np.bincount(row, minlength=len(dense)))
    others = {k: v for k, v in table.node.items() if k != "node_feat"}
    sparse = {"node_feat_index": Ragged(ptr, column.astype(np.int32)),
              "node_feat_value": Ragged(ptr, dense[row, column])}  # fmt: skip
    return type(table)(table.node_ptr, table.edge_ptr, table.graph, {**sparse, **others},
                       table.edge)  # fmt: skip


def sparse_info(info):
    columns = corpus_columns(outputs=4, num_features=4, level="node", sparse=True)
    return msgspec.structs.replace(info, columns=columns)


def test_sparse_and_dense_features_give_the_same_losses(tmp_path):
    dense = train(tmp_path, node_corpus(tmp_path))
    sparse = train(tmp_path, node_corpus(tmp_path, with_sparse_features, info_change=sparse_info))
    losses = [
        [row["loss"] for row in json.loads(model.location.read_bytes("curves.json", limit=1 << 20))]
        for model in (dense, sparse)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)


def directed(table):
    keep = np.arange(table.total_edges) > 0
    edge = {name: values[keep] for name, values in table.edge.items()}
    return type(table)(table.node_ptr, pointers([keep.sum()]), table.graph, table.node, edge)


def without_training_nodes(table):
    split = np.full(table.total_nodes, SPLITS.index("ood_val"), dtype=np.int8)
    return table.with_columns(node={"node_split": split})


def other_test_labels(table):
    """Give nodes of test splits random labels."""
    tested = np.isin(table.node["node_split"], [SPLITS.index("id_test"), SPLITS.index("ood_test")])
    label = table.node["node_label"].copy()
    label[tested] = rng(1, "tests").integers(0, 4, tested.sum())
    return table.with_columns(
        node={"node_label": label, "node_y": np.eye(4, dtype=np.float32)[label]}
    )


def test_validation_alone_leaves_no_trace_of_test_labels(tmp_path):
    corpora = [node_corpus(tmp_path), node_corpus(tmp_path, other_test_labels)]
    plain, changed = (train(tmp_path, corpus, evaluate="validation") for corpus in corpora)
    assert corpora[0].manifest.digest != corpora[1].manifest.digest
    assert plain.manifest.files == changed.manifest.files
    assert plain.manifest.summary == changed.manifest.summary
    assert sorted(plain.manifest.summary["quality"]["selection"]["last"]) == [
        "epoch", "id_val", "ood_val"
    ]  # fmt: skip


def unlabelled(table):
    return table.with_columns(node={
        "node_y": np.full((table.total_nodes, 4), np.nan, dtype=np.float32),
        "node_label": np.full(table.total_nodes, -1, dtype=np.int32),
    })  # fmt: skip


def one_label(table):
    label = np.zeros(table.total_nodes, dtype=np.int32)
    return table.with_columns(
        node={"node_label": label, "node_y": np.eye(4, dtype=np.float32)[label]}
    )


def one_environment(table):
    return table.with_columns(node={"node_env_id": np.zeros(table.total_nodes, dtype=np.int32)})


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (directed, {}, "cbas-color has directed edges, but backbones need undirected graphs. "
         "Store every edge in both directions."),
        (without_training_nodes, {},
         "cbas-color has no `train` split. Prepare it with training nodes."),
        (unlabelled, {}, "cbas-color has no labelled training nodes. Add labels to them."),
        (one_label, {}, "all training nodes of cbas-color have the same label. Add nodes of "
         "another label."),
        (one_environment, {"learner": "vrex"}, "`vrex` compares environments, but the training "
         "nodes have 1 environment(s). Use the algorithm `erm`, or a corpus with environments."),
        (lambda table: table, {"backbone": "gin"}, "cbas-color has node labels, but "
         "`gin` predicts graph labels. Use the backbone `gcn`."),
        (lambda table: table, {"origins": ("featx",)},
         "cbas-color has no nodes of origin featx. `gsx show` lists its origins."),
    ],
)  # fmt: skip
def test_untrainable_corpora_are_rejected(tmp_path, change, options, message):
    with pytest.raises(StageError) as error:
        train(tmp_path, node_corpus(tmp_path, change), **options)
    assert str(error.value) == message


def test_samples_without_training_nodes_are_rejected(tmp_path):
    def few(table):
        split = table.node["node_split"].copy()
        training = np.flatnonzero(split == 0)
        split[training[3:]] = SPLITS.index("all")
        label = table.node["node_label"].copy()
        label[training[:2]] = [0, 1]
        y = np.eye(4, dtype=np.float32)[label]
        return table.with_columns(node={"node_split": split, "node_label": label, "node_y": y})

    with pytest.raises(StageError) as error:
        train(tmp_path, node_corpus(tmp_path, few), batch_size=2, layers=1)
    assert str(error.value) == (
        "100 samples of 2 walks contain fewer than two training nodes. Increase `batch_size`, the "
        "number of walks."
    )


def test_gcn_rejects_graph_labels(tmp_path):
    corpus = run_recipe(tmp_path, '[prepare]\ndataset = "motif-size"\nnum_graphs = 60\n')["prepare"]
    with pytest.raises(StageError) as error:
        train(tmp_path, corpus)
    assert str(error.value) == (
        "motif-size has graph labels, but `gcn` predicts node labels. Use the backbone `gin` or "
        "`vgin`."
    )


def test_environment_balanced_sampling_of_nodes_is_rejected():
    with pytest.raises(UsageError) as error:
        resolve(TrainConfig(backbone="gcn", env_balanced=True))
    assert str(error.value) == (
        "env_balanced applies to graphs only; nodes are sampled by random walks. Remove it."
    )


def test_gcn_rejects_categorical_and_edge_features():
    def info(**options):
        columns = corpus_columns(outputs=2, num_features=1, level="node", **options)
        return CorpusInfo(name="x", level="node", outputs=("a", "b"), domain="d",
                          environments=(Environment(id=0, name="e"),), columns=columns,
                          num_features=1)  # fmt: skip

    words = (Feature(name="kind", words=("a", "b")),)
    with pytest.raises(StageError) as error:
        node_backbone_shape(info(feature_dtype="int8", feature_words=words), 4, 2)
    assert str(error.value) == (
        "x has categorical node features, but `gcn` needs numeric ones. Encode them one-hot."
    )
    with pytest.raises(StageError) as error:
        node_backbone_shape(info(edge_features=2), 4, 2)
    assert str(error.value) == "x has edge features, which `gcn` does not support. Remove them."
    assert node_backbone_shape(info(), 4, 2).backbone == "gcn"


def test_the_command_line_uses_gcn_for_nodes(tmp_path):
    store = ("--store", tmp_path / "store")
    corpus = json.loads(command("prepare", "cbas-color", "--json", *store).out)
    assert corpus["nodes"] == {"train": 420, "id_val": 70, "id_test": 70, "ood_val": 70,
                             "ood_test": 70}  # fmt: skip
    results = tmp_path / "results"
    output = command("train", corpus["key"], "--preset", "quick", "--epochs", "2", "--samples", "2",
                   "--results", results, "--method", "erm", "--json", *store)  # fmt: skip
    model = json.loads(output.out)
    result = json.loads((results / "cbas-color" / "erm-0.json").read_text())
    assert result["config"]["backbone"] == "gcn"
    assert result["config"]["samples"] == 2
    assert result["ood_test"] == model["selection"]["last"]["ood_test"]
    evaluation = json.loads(command("evaluate", model["key"], corpus["key"], "--json", *store).out)
    assert evaluation["splits"]["ood_test"]["nodes"] == 70
    assert evaluation["splits"]["ood_test"]["score"] == result["ood_test"]
    assert [row["name"] for row in evaluation["environments"][:2]] == ["color red", "color green"]
    text = command("evaluate", model["key"], corpus["key"], *store).out.splitlines()
    assert text[1].split()[:4] == ["SPLIT", "WHICH", "NODES", "ACCURACY"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("pretrain", "extract"), 4, "cbas-color has node labels, but extractors need graph "
         "labels. Use `gsx train` on this corpus without an extractor."),
        (("pretrain", "bridge"), 4, "cbas-color has node labels, but splicing needs graph labels. "
         "Use `gsx train` on this corpus without a bridge model."),
        (("generate", "--options", "001"), 4, "cbas-color has node labels; splicing needs a "
         "corpus of labelled graphs."),
        (("tune",), 2, "g-splice needs graph labels, but cbas-color has node labels. Choose "
         "another `--method`: featx, drop-edge, mask-feature, none."),
    ],
)  # fmt: skip
def test_splicing_commands_reject_node_labels(tmp_path, words, code, message):
    store = ("--store", tmp_path / "store")
    key = json.loads(command("prepare", "cbas-color", "--json", *store).out)["key"]
    result = command(*words, key, *store)
    assert result.code == code
    assert message in result.err
