"""Export formats of node-labelled corpora, read in a process that cannot import gsx."""

import ast
import json

import numpy as np
import pandas as pd
import pytest
import torch

import gsx
from gsx.errors import UsageError
from gsx.pyg import MASKS, densify_features
from gsx.schema import SPLITS
from gsx.stages.export.export import export, today
from gsx.stages.export.node_arrays import node_arrays
from gsx.stages.export.request import ExportRequest
from gsx.storage.artifacts.lineage import lineage_manifests
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.support.artifacts import gsx as run
from tests.support.make_golden import pages
from tests.support.no_gsx_process import run_without_gsx
from tests.support.run_stages import run_stage
from tests.support.synthetic_corpora import planted_nodes, write_planted

REPLICAS = {"featx": True, "options": "000", "replicas": 2}


def corpus_with_replicas(folder, *, sparse):
    source = write_planted(folder, *planted_nodes(120, sparse=sparse))
    mask = run_stage(folder, "mask", {"steps": 20}, {"prepare": source})
    return Corpus(run_stage(folder, "generate", REPLICAS, {"prepare": source, "mask": mask}))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return corpus_with_replicas(tmp_path_factory.mktemp("dense"), sparse=False)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A graph with sparse features and two replicas."""
    return corpus_with_replicas(tmp_path_factory.mktemp("sparse"), sparse=True)


@pytest.fixture(scope="module")
def dropped(tmp_path_factory):
    """A graph and two replicas without some of its edges."""
    folder = tmp_path_factory.mktemp("dropped")
    source = write_planted(folder, *planted_nodes(120, sparse=True))
    options = {"method": "drop-edge", "rate": 0.3, "replicas": 2}
    return Corpus(run_stage(folder, "augment", options, {"prepare": source}))


@pytest.fixture(scope="module")
def table(corpus):
    return densify_features(corpus.table(), corpus.info)


def write(corpus, folder, format_name, **options):
    artifact, _ = export(corpus, [corpus.artifact.manifest], folder, format_name, **options)
    assert run("verify", folder).code == 0
    return artifact.manifest


CODE = """
import os, sys; os.environ['OUTDATED_IGNORE'] = '1'
import outdated; outdated.check_outdated = lambda *_: (False, '')
sys.path[:0] = ['portable', 'good', 'ogb']
import load_pyg, load_good, load_ogb, torch

every, made = load_pyg.load('all'), load_pyg.load('all', origin='featx')
print('portable', len(made), [int(d.edge_index.shape[1]) for d in every],
      all(torch.equal(d.edge_index, every[0].edge_index) for d in made))
torch.save([(d.x.to_dense(), d.train_mask) for d in made], 'made.pt')
lacking = [*load_pyg.load('all', folder='dropped'),
           *load_pyg.load('all', folder='dropped', origin='dropedge')]
torch.save([d.edge_index for d in lacking], 'lacking.pt')

dataset, meta = load_good.load()
data = dataset[0]
print('good', len(dataset), data.num_nodes, dataset.task, meta['model_level'], meta['num_envs'])
print('masks', {m: int(data[m].sum()) for m in data.keys() if m.endswith('mask')})
print('files', sorted(os.listdir('good/GOODPlanted/color/processed')), data.domain, data.y.dtype)
torch.save((data.x, data.edge_index, data.env_id), 'data.pt')

from ogb.nodeproppred import PygNodePropPredDataset
dataset = PygNodePropPredDataset(load_ogb.NAME, meta_dict=load_ogb.meta_dict())
data, index = dataset[0], dataset.get_idx_split()
print('ogb', data.num_nodes, data.num_edges, tuple(data.y.shape), dataset.num_classes,
      dataset.eval_metric, tuple(data.node_env_id.shape))
print('split', {name: len(rows) for name, rows in index.items() if len(rows)})
"""


@pytest.fixture(scope="module")
def loaded(corpus, dropped, tmp_path_factory):
    """Folder of three exports, and the output of a process without gsx by its first word."""
    folder = tmp_path_factory.mktemp("loaded")
    for format_name in ("portable", "good", "ogb"):
        write(corpus, folder / format_name, format_name)
    write(dropped, folder / "dropped", "portable")
    lines = run_without_gsx(CODE, folder, strict=False).stdout.splitlines()
    return folder, dict(line.split(" ", 1) for line in lines if " " in line)


def test_shipped_loader_shares_edges_of_replicas(corpus, loaded):
    folder, outputs = loaded
    assert outputs["portable"] == f"2 {[corpus[0].edge_index.shape[1]] * 3} True"
    replicas = torch.load(folder / "made.pt", weights_only=True)
    for row, (x, mask) in enumerate(replicas, start=1):
        assert torch.equal(x, corpus[row].x.to_dense())
        assert torch.equal(mask, corpus[row].train_mask)


def test_shipped_loader_reads_own_edges_of_replicas(dropped, loaded):
    edges = torch.load(loaded[0] / "lacking.pt", weights_only=True)
    own = [dropped[row].edge_index for row in range(3)]
    assert own[1].shape[1] < own[0].shape[1] != own[2].shape[1]
    assert len(edges) == 5
    assert all(map(torch.equal, edges, [*own, *own[1:]]))


def test_csv_writes_own_edges_of_replicas(dropped, tmp_path):
    write(dropped, tmp_path / "out", "csv")
    graphs, edges = (pd.read_csv(tmp_path / "out" / f"{name}.csv") for name in ("graphs", "edges"))
    assert graphs["edges_of"].tolist() == graphs["graph_id"].tolist()
    assert edges.groupby("graph_id").size().tolist() == graphs["num_edges"].tolist()
    assert graphs["num_edges"].tolist() == dropped.table().num_edges.tolist()


def test_split_tables_list_held_out_nodes_once(corpus, loaded):
    tables = loaded[0] / "portable" / "splits"
    rows = {split: len(pd.read_csv(tables / f"{split}.csv")) for split in corpus.nodes}
    assert rows == dict(corpus.nodes)


def test_good_reads_one_graph_with_masks_and_gsx_reads_it_back(corpus, table, loaded, tmp_path):
    folder, outputs = loaded
    envs = len(corpus.info.environments)
    assert outputs["good"] == f"1 {table.total_nodes} Multi-label classification node {envs}"
    mask_sizes = ast.literal_eval(outputs["masks"])
    masks = {split: mask_sizes[mask] for split, mask in MASKS.items() if mask_sizes[mask]}
    assert masks == dict(corpus.nodes)
    assert outputs["files"] == "['concept.pt', 'covariate.pt', 'no_shift.pt'] color torch.int64"
    x, edges, env = torch.load(folder / "data.pt", weights_only=True)
    assert np.array_equal(x.numpy(), table.node["node_feat"])
    assert int(edges.max()) < table.total_nodes
    assert edges.shape[1] == table.total_edges
    assert int(env.max()) == corpus.info.environments[-1].id
    result = run("prepare", "--good", folder / "good/GOODPlanted/color", "--store", tmp_path,
                "--json")  # fmt: skip
    assert result.code == 0, result.err
    nodes = gsx.open(json.loads(result.out)["key"], store=tmp_path).nodes
    assert nodes["ood_test"] == corpus.nodes["ood_test"]
    assert sum(nodes[split] for split in ("train", "id_val", "id_test")) == corpus.nodes["train"]


def test_ogb_reads_nodes_labels_and_splits(corpus, table, loaded):
    folder, outputs = loaded
    size = table.total_nodes
    assert outputs["ogb"] == f"{size} {table.total_edges} ({size}, 1) 3 acc ({size}, 1)"
    keys = {"train": "train", "ood_val": "valid", "ood_test": "test", "id_val": "id_valid",
             "id_test": "id_test"}  # fmt: skip
    assert ast.literal_eval(outputs["split"]) == {keys[s]: n for s, n in corpus.nodes.items()}
    ids = pd.read_csv(folder / "ogb/planted_nodes/mapping/nodeidx2node.csv")
    assert ids["graph_id"].tolist() == np.repeat(table.graph["graph_id"], table.num_nodes).tolist()


def test_dgl_tables_hold_masks_labels_and_node_features(corpus, table, tmp_path):
    write(corpus, tmp_path / "out", "dgl")
    graphs, nodes, edges = (pd.read_csv(tmp_path / "out" / f"{name}.csv")
                            for name in ("graphs", "nodes", "edges"))  # fmt: skip
    assert graphs["augmented"].tolist() == [0, 1, 1]
    assert nodes["label"].tolist() == table.node["node_label"].tolist()
    feat = np.array([ast.literal_eval(cell) for cell in nodes["feat"]], dtype=np.float32)
    assert np.array_equal(feat, table.node["node_feat"])
    masks = {split: int(nodes[f"{split}_mask"].sum()) for split in corpus.nodes}
    assert masks == dict(corpus.nodes)
    assert edges.groupby("graph_id").size().tolist() == table.num_edges.tolist()
    assert nodes.drop(columns="feat").select_dtypes("number").shape[1] == nodes.shape[1] - 1


@pytest.mark.parametrize("which", ["plain", "corpus"])
def test_csv_writes_edges_once_and_sparse_features_as_rows(which, request, tmp_path):
    corpus = request.getfixturevalue(which)
    table = densify_features(corpus.table(), corpus.info)
    write(corpus, tmp_path / "out", "csv")
    graphs, nodes, edges = (pd.read_csv(tmp_path / "out" / f"{name}.csv")
                            for name in ("graphs", "nodes", "edges"))  # fmt: skip
    assert graphs["edges_of"].tolist() == [graphs["graph_id"][0]] * 3
    assert len(edges) == table.num_edges[0]
    assert nodes["split"].tolist() == [SPLITS[code] for code in table.node["node_split"]]
    assert nodes["y_a"].tolist() == table.node["node_y"][:, 0].tolist()
    if corpus.info.sparse:
        values = pd.read_csv(tmp_path / "out/features.csv")
        assert values["value"].sum() == pytest.approx(table.node["node_feat"].sum(), rel=1e-5)
        assert "feature_0" not in nodes
    else:
        assert np.allclose(nodes["feature_3"], table.node["node_feat"][:, 3])


@pytest.mark.parametrize(("mode", "kept"), [("same-class", 0), ("argmax", 1), ("soft", 1)])
def test_nodes_with_soft_labels_are_dropped_from_their_split_by_default(tmp_path, mode, kept):
    soft = Corpus(pages(Store.at(tmp_path / "store")))  # its only test node has a soft label
    manifest = write(soft, tmp_path / "out", "good", labels=mode)
    assert [drop.count for drop in manifest.dropped] == ([] if kept else [1])
    request = ExportRequest(corpus=soft, lineage=(), date=today(), labels=mode)
    arrays = node_arrays(request, "good")
    assert int(arrays.in_split("ood_test").sum()) == kept
    assert arrays.y.shape == ((4, 2) if mode == "soft" else (4,))


def test_dense_features_above_the_limit_are_refused(tmp_path, monkeypatch):
    wide = Corpus(pages(Store.at(tmp_path / "store")))
    monkeypatch.setattr("gsx.stages.export.formats.dgl.MAX_VALUES", 10)
    with pytest.raises(
        UsageError, match=r"pages has 4 nodes with 5 features, and `dgl` stores features densely"
    ):
        export(
            wide,
            lineage_manifests(Store.at(tmp_path / "store"), wide.artifact),
            tmp_path / "o",
            "dgl",
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]
