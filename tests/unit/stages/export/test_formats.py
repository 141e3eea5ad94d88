"""Export formats, read by their libraries in a process that cannot import gsx."""

import ast
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

import gsx
from gsx.cli.export import export as export_command
from gsx.cli.options import FORMATS
from gsx.errors import UsageError
from gsx.ragged import decode_texts
from gsx.schema import ORIGINS
from gsx.stages.export.export import export
from gsx.stages.export.formats import EXPORT_FORMATS
from gsx.stages.export.formats.good import dataset_type, good_names
from gsx.stages.export.hard_labels import apply_label_mode
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.sharing.csv_file import write_csv
from tests.support.artifacts import gsx as run
from tests.support.make_golden import pages
from tests.support.no_gsx_process import run_without_gsx
from tests.support.run_stages import run_recipe
from tests.support.smiles import SMILES

RECIPE = """
[prepare]
dataset = "motif-base"
num_graphs = 200
[generate]
options = "001"
f = [2, 2]
count = 50
bridges = "none"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("layouts")


@pytest.fixture(scope="module")
def corpus(home):
    """Motif: 200 source graphs and 50 spliced ones, most of them with soft labels."""
    return Corpus(run_recipe(home / "store", RECIPE)["generate"])


@pytest.fixture(scope="module")
def molecules(home):
    table = home / "assay.csv"
    rows = [f"{text},{int('N' in text)}" for text in SMILES[::3]]
    table.write_text("\n".join(["smiles,active", *rows]) + "\n")
    result = run("prepare", "--smiles", table, "--target", "active", "--domain", "size",
               "--store", home / "store", "--json")  # fmt: skip
    assert result.code == 0, result.err
    return Corpus(Store.at(home / "store").resolve(json.loads(result.out)["key"]))


def write(corpus, folder, format_name, **options):
    artifact, _ = export(corpus, [corpus.artifact.manifest], folder, format_name, **options)
    assert run("verify", folder).code == 0
    return artifact


def hard(corpus, split):
    table = corpus.table(split=split)
    return table.filter(table.dense("graph", "label") >= 0)


def test_the_command_offers_every_format_once():
    names = [export_format.name for export_format in EXPORT_FORMATS]
    assert len(set(names)) == len(names)
    (option,) = (option for option in export_command.params if "--to" in option.opts)
    assert list(option.type.choices) == [*names, *FORMATS]
    assert all(export_format.description for export_format in EXPORT_FORMATS)


def test_formats_are_listed_without_numpy_and_torch():
    code = (
        "import sys; import gsx.stages.export.formats; "
        "print([name for name in ('torch', 'numpy', 'rdkit', 'pyarrow') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert output.strip() == b"[]"


def test_an_unknown_format_is_refused(corpus, tmp_path):
    with pytest.raises(UsageError, match=r"unknown export format `xml`\. Choose one of portable, "):
        export(corpus, [corpus.artifact.manifest], tmp_path / "out", "xml")
    assert list(tmp_path.iterdir()) == []


def test_pyg_files_load_with_weights_only(corpus, tmp_path):
    write(corpus, tmp_path / "out", "pyg")
    code = """
import torch, corpus
from torch_geometric.loader import DataLoader
values, slices = torch.load('processed/train.pt', weights_only=True)
train = corpus.Corpus('train')
batch = next(iter(DataLoader(train, batch_size=len(train))))
print(len(train), batch.x.shape[0], float(batch.y.sum()), int(batch.env_id.max()))
torch.save((batch.edge_index, batch.y, batch.origin), '../batch.pt')
"""
    output = run_without_gsx(code, tmp_path / "out", strict=False).stdout.split()
    table = corpus.table(split="train")
    assert output == [str(len(table)), str(table.total_nodes), f"{float(len(table))}", "3"]
    edges, y, origin = torch.load(tmp_path / "batch.pt", weights_only=True)
    (ours,) = corpus.loader(1000, split="train")
    assert torch.equal(edges, ours.edge_index)
    assert torch.equal(y, ours.y)
    assert origin.tolist() == table.graph["origin"].tolist()


def test_pyg_files_hold_sparse_features_and_node_masks(tmp_path):
    artifact = pages(Store.at(tmp_path / "store"))
    write(Corpus(artifact), tmp_path / "out", "pyg")
    code = (
        "import corpus; d = corpus.Corpus('all')[0]\n"
        "print(float(d.x.to_dense().sum()), d.test_mask)"
    )
    output = run_without_gsx(code, tmp_path / "out", strict=False).stdout
    data = gsx.open(artifact.location.local)[0]
    assert output.strip() == f"{float(data.x.to_dense().sum())} {data.test_mask}"


GOOD = """
import torch
from torch_geometric.data import InMemoryDataset
class GOODMotif(InMemoryDataset):  # like GOOD's class
    def __init__(self, root, domain, shift, subset):
        self.domain = domain
        super().__init__(root)
        shifts = {'no_shift': 0, 'covariate': 3, 'concept': 8}
        subsets = {'train': 0, 'val': 1, 'test': 2, 'id_val': 3, 'id_test': 4}
        path = self.processed_paths[shifts[shift] + subsets[subset]]
        with torch.serialization.safe_globals(SAFE):
            self.data, self.slices = torch.load(path, weights_only=True)
    raw_dir = property(lambda self: self.root)
    def _download(self): pass
    def process(self): raise AssertionError('a file is missing, so GOOD would rebuild the dataset')
    @property
    def processed_dir(self): return f'{self.root}/GOODMotif/{self.domain}/processed'
    @property
    def processed_file_names(self):
        names = ['train', 'val', 'test', 'id_val', 'id_test']
        return [f'no_shift_{n}.pt' for n in names[:3]] + [
            f'{shift}_{n}.pt' for shift in ('covariate', 'concept') for n in names]
"""


def test_good_files_have_the_names_keys_and_shapes_of_good(corpus, tmp_path):
    write(corpus, tmp_path / "out", "good")
    code = (
        "from load_good import SAFE\n"
        + GOOD
        + """
import os, load_good
train = GOODMotif(os.getcwd(), 'basis', 'covariate', 'train')
test = GOODMotif(os.getcwd(), 'basis', 'covariate', 'test')
first = train[0]
print(len(train), len(test), first.y.shape, first.y.dtype, first.env_id.shape,
      first.x.shape[1], bool(first.edge_gt.any()), sorted(first.keys()))
print(len(GOODMotif(os.getcwd(), 'basis', 'concept', 'train')))
datasets, meta = load_good.load()
print(sorted(datasets), meta['num_envs'], meta['num_classes'], datasets['task'],
      len(datasets['val']))
"""
    )
    lines = run_without_gsx(code, tmp_path / "out", strict=False).stdout.splitlines()
    train = hard(corpus, "train")
    assert lines[0].startswith(
        f"{len(train)} {corpus.splits['ood_test']} torch.Size([1]) torch.int64 torch.Size([1]) 1 "
        "True ['basis_id', 'domain_id', 'edge_gt', 'edge_index', 'env_id'"
    )
    assert lines[1] == "0"
    envs = len(np.unique(train.graph["env_id"]))
    assert lines[2] == (
        "['id_test', 'id_val', 'metric', 'task', 'test', 'train', 'val'] "
        f"{envs} 3 Multi-label classification {corpus.splits['ood_val']}"
    )


def test_good_files_of_other_shifts_are_empty(corpus, tmp_path):
    write(corpus, tmp_path / "out", "good")
    folder = tmp_path / "out/GOODMotif/basis/processed"
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert len(sizes) == 13
    without = [size for name, size in sizes.items() if not name.startswith("covariate")]
    assert max(without) < 10_000 < sizes["covariate_train.pt"]


@pytest.mark.parametrize("mode", ["argmax", "soft"])
def test_good_labels_are_argmax_or_soft_on_request(corpus, tmp_path, mode):
    table = corpus.table(split="train")
    write(corpus, tmp_path / "out", "good", labels=mode)
    path = tmp_path / "out/GOODMotif/basis/processed/covariate_train.pt"
    with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
        data, _ = torch.load(path, weights_only=True)
    expected = str([len(table)] if mode == "argmax" else [len(table), 3])
    assert str(list(data.y.shape)) == expected
    labels = table.graph["y"].argmax(1) if mode == "argmax" else table.graph["y"]
    assert np.array_equal(data.y.numpy(), labels)


def test_manifest_counts_dropped_graphs(corpus, tmp_path):
    manifest = write(corpus, tmp_path / "out", "good").manifest
    soft = len(corpus.table(split="train")) - len(hard(corpus, "train"))
    assert soft > 10
    assert manifest.counts["train"] == len(hard(corpus, "train"))
    assert [(drop.count, drop.reason[:11]) for drop in manifest.dropped] == [(soft, "graphs with")]
    assert manifest.kind == "export"


def test_good_molecules_have_size_and_scaffold(molecules, tmp_path):
    write(molecules, tmp_path / "out", "good")
    (file,) = (tmp_path / "out").glob("*/size/processed/covariate_train.pt")
    with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
        data, slices = torch.load(file, weights_only=True)
    table = molecules.table(split="train")
    assert data.nodesize.tolist() == table.num_nodes.tolist()
    assert data.scaffold == decode_texts(table.lists("graph", "scaffold"))
    assert slices["nodesize"].tolist() == slices["scaffold"].tolist() == [*range(len(table) + 1)]


def test_good_names_and_dataset_types(corpus):
    import msgspec

    names = [
        good_names(msgspec.structs.replace(corpus.info, name=name, domain=domain))
        for name, domain in (("motif-size-concept", "size"), ("hiv-scaffold", "scaffold"),
                             ("assay", "size"))
    ]  # fmt: skip
    assert names == [
        ("GOODMotif", "size", "concept"),
        ("GOODHIV", "scaffold", "covariate"),
        ("GOODAssay", "size", "covariate"),
    ]
    types = [dataset_type(msgspec.structs.replace(corpus.info, name=name))
             for name in ("motif-size", "twitter-length", "nci1-size")]  # fmt: skip
    assert types == ["syn", "nlp", "real"]


def test_ogb_reads_graphs_labels_and_splits(corpus, tmp_path):
    write(corpus, tmp_path / "out", "ogb")
    code = """
import os; os.environ['OUTDATED_IGNORE'] = '1'
import outdated; outdated.check_outdated = lambda *_: (False, '')
import torch, load_ogb
from ogb.graphproppred import PygGraphPropPredDataset
dataset = PygGraphPropPredDataset(load_ogb.NAME, meta_dict=load_ogb.meta_dict())
assert len(load_ogb.load()) == len(dataset)  # from the cache
index = dataset.get_idx_split()
print(len(dataset), {name: len(rows) for name, rows in index.items()})
print(dataset[int(index['test'][0])].num_nodes, dataset.num_classes, dataset.eval_metric,
      dataset[0].y.shape, dataset[0].node_env_id.shape[1])
print([torch.load('meta_dict.pt')['split']])
"""
    output = run_without_gsx(code, tmp_path / "out", strict=False).stdout
    lines = [line for line in output.splitlines()
             if line[:1].isdigit() or line[:1] == "["]  # fmt: skip
    train = len(hard(corpus, "train"))
    assert lines[0] == (
        f"{train + 80} {{'train': {train}, 'valid': 20, 'test': 20, 'id_valid': 20, 'id_test': 20}}"
    )
    test = corpus.table(split="ood_test")
    assert lines[1:] == [f"{test.num_nodes[0]} 3 acc torch.Size([1, 1]) 1", "['base']"]
    # The cache of OGB is no damage, and other new files are.
    result = run("verify", tmp_path / "out", "--json")
    assert result.code == 0
    (report,) = json.loads(result.out)["artifacts"]
    assert {path.split("/")[1] for path in report["caches"]} == {"processed"}
    shown = run("verify", tmp_path / "out").out
    assert "note: 3 files are no part of the artifact, such as " in shown
    (raw,) = (tmp_path / "out").glob("*/raw")
    (raw / "more.npz").write_bytes(b"x")
    assert run("verify", tmp_path / "out").code == 3


def test_a_cache_in_a_corpus_is_damage(corpus, tmp_path):
    write(corpus, tmp_path / "out", "portable")
    (tmp_path / "out" / "processed").mkdir()
    (tmp_path / "out" / "processed" / "x.pt").write_bytes(b"x")
    assert run("verify", tmp_path / "out").code == 3


def test_num_classes_agree_in_all_libraries(home, molecules, tmp_path):
    """A binary corpus with soft labels: 2 classes and 1 task, wherever it is loaded."""
    from tests.support.run_stages import run_stage

    options = {"options": "001", "count": 40, "bridges": "random"}
    corpus = Corpus(run_stage(home / "store", "generate", options, {"prepare": molecules.artifact}))
    y = corpus.table(split="train").graph["y"]
    assert len(np.unique(y)) > 2
    data = corpus.to_pyg(split="train")
    assert (data.num_classes, data.num_tasks) == (2, 1)
    for format_name in ("portable", "pyg", "ogb"):
        write(corpus, tmp_path / format_name, format_name)
    code = """
import sys; sys.path[:0] = ['portable', 'pyg', 'ogb']
import load_pyg, corpus, load_ogb
for dataset in (load_pyg.load('train'), corpus.Corpus('train'), load_ogb.load()):
    print('classes', dataset.num_classes, dataset.num_tasks)
"""
    output = run_without_gsx(code, tmp_path, strict=False).stdout
    assert [line for line in output.splitlines() if line.startswith("classes")] == [
        "classes 2 1"
    ] * 3


@pytest.mark.parametrize("labels", ["same-class", "argmax"])
def test_export_prints_what_is_left_out_or_converted(corpus, home, tmp_path, labels):
    soft = len(corpus.table(split="train")) - len(hard(corpus, "train"))
    words = ("export", corpus.key[:12], "--store", home / "store", "--to", "good",
             "--labels", labels, tmp_path / "out")  # fmt: skip
    result = run(*words)
    assert result.code == 0, result.err
    if labels == "argmax":
        text = f"export: soft labels of {soft} graphs became their most likely class"
    else:
        text = f"export: left out: {soft} graphs with soft labels (`--labels argmax` or `soft`"
    assert text in result.err
    as_json = json.loads(run(*words, "--json").out)
    assert sum(as_json["left_out"].values()) == (soft if labels == "same-class" else 0)


def test_dgl_tables_hold_only_numbers_and_lists_of_numbers(molecules, tmp_path):
    write(molecules, tmp_path / "out", "dgl")
    graphs, nodes, edges = (pd.read_csv(tmp_path / "out" / f"{name}.csv")
                            for name in ("graphs", "nodes", "edges"))  # fmt: skip
    table = molecules.table()
    assert graphs["graph_id"].tolist() == table.graph["graph_id"].tolist()
    assert graphs.select_dtypes("number").shape == graphs.shape
    assert np.array_equal(
        read_like_dgl(tmp_path / "out/nodes.csv")["feat"], table.node["node_feat"]
    )
    assert len(nodes) == table.total_nodes
    assert edges["src_id"].tolist() == table.edge["edge_src"].tolist()
    assert nodes.groupby("graph_id")["node_id"].nunique().sum() == table.total_nodes
    masks = graphs[[name for name in graphs if name.endswith("_mask")]]
    assert (masks.sum(axis=1) == 1).all()
    assert (tmp_path / "out/meta.yaml").read_text().startswith("dataset_name: assay\n")


def read_like_dgl(file):
    """Return the columns of a table like the default parser of DGL's `CSVDataset`."""
    columns = {}
    for name, values in pd.read_csv(file).items():
        cells = values.to_numpy().squeeze()
        text = isinstance(cells[0], str)
        columns[name] = np.array([ast.literal_eval(cell) for cell in cells]) if text else cells
    return columns


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.ones((4, 1), dtype=np.float32), "f"),
        (np.array([[0.0, 1.0], [1e-7, -2.0], [3e20, 0.5]], dtype=np.float32), "f"),
        (np.arange(6, dtype=np.uint8).reshape(3, 2), "i"),
        (np.arange(3, dtype=np.int64)[:, None], "i"),
    ],
)
def test_dgl_reads_features_with_their_shape_and_kind(values, kind, tmp_path):
    """A single feature stays a matrix, and integral floats stay floats."""
    write_csv(tmp_path / "nodes.csv", [{"node_id": np.arange(len(values)), "feat": values}])
    feat = read_like_dgl(tmp_path / "nodes.csv")["feat"]
    assert (feat.shape, feat.dtype.kind) == (values.shape, kind)
    assert np.array_equal(feat.astype(values.dtype), values)


def test_csv_has_a_column_per_feature(molecules, tmp_path):
    write(molecules, tmp_path / "out", "csv")
    for split in molecules.splits:
        table = molecules.table(split=split)
        nodes = pd.read_csv(tmp_path / "out" / split / "nodes.csv")
        graphs = pd.read_csv(tmp_path / "out" / split / "graphs.csv")
        assert nodes["atomic_num"].tolist() == table.node["node_feat"][:, 0].tolist()
        assert graphs["y_active"].tolist() == table.graph["y"][:, 0].tolist()
        assert graphs["num_nodes"].tolist() == table.num_nodes.tolist()
        assert set(graphs["origin"]) == {ORIGINS[0]}


def test_smi_and_sdf_hold_all_molecules(molecules, tmp_path):
    from rdkit import Chem

    write(molecules, tmp_path / "smi", "smi")
    write(molecules, tmp_path / "sdf", "sdf")
    for split in molecules.splits:
        lines = (tmp_path / "smi" / f"{split}.smi").read_text().splitlines()
        table = molecules.table(split=split)
        structures = list(Chem.SDMolSupplier(str(tmp_path / "sdf" / f"{split}.sdf")))
        cells = [line.split("\t") for line in lines]
        assert [int(id_) for _, id_, _ in cells] == table.graph["graph_id"].tolist()
        assert [float(y) for *_, y in cells] == table.graph["y"][:, 0].tolist()
        assert [molecule.GetNumAtoms() for molecule in structures] == table.num_nodes.tolist()
        assert [float(molecule.GetProp("active")) for molecule in structures] == (
            table.graph["y"][:, 0].tolist()
        )


def test_sdf_keeps_stereo_and_computes_no_other_coordinates(home, tmp_path):
    from rdkit import Chem

    texts = ["OC[C@@H](N)C(=O)O", "F/C=C/CCN", "CCO", "C" * 40 + "O", "c1ccccc1O", "CC=CC"] * 4
    table = home / "stereo.csv"
    rows = [f"{text},{n % 2}" for n, text in enumerate(texts)]
    table.write_text("\n".join(["smiles,active", *rows]) + "\n")
    result = run("prepare", "--smiles", table, "--target", "active", "--rule", "random",
                 "--envs", "1", "--store", home / "store", "--json")  # fmt: skip
    corpus = Corpus(Store.at(home / "store").resolve(json.loads(result.out)["key"]))
    write(corpus, tmp_path / "out", "sdf")
    found = {}
    for path in (tmp_path / "out").glob("*.sdf"):
        for molecule in Chem.SDMolSupplier(str(path)):
            flat = not np.any(molecule.GetConformer().GetPositions())
            found[Chem.MolToSmiles(molecule)] = flat
    expected = {Chem.CanonSmiles(text): "@" not in text and "/" not in text for text in texts}
    assert found == expected


def test_chemprop_tables_have_targets_and_its_names_of_splits(molecules, tmp_path):
    write(molecules, tmp_path / "out", "chemprop")
    main, other = (pd.read_csv(tmp_path / "out" / name) for name in ("chemprop.csv", "id.csv"))
    assert list(main.columns) == list(other.columns) == ["smiles", "active", "split"]
    for frame, splits in (
        (main, {"train": "train", "ood_val": "val", "ood_test": "test"}),
        (other, {"id_val": "val", "id_test": "test"}),
    ):
        for split, word in splits.items():
            table = molecules.table(split=split)
            rows = frame[frame["split"] == word]
            assert rows["smiles"].tolist() == decode_texts(table.lists("graph", "smiles"))
            assert rows["active"].tolist() == table.graph["y"][:, 0].tolist()
    command = (tmp_path / "out" / "train.sh").read_text()
    assert command == (
        "chemprop train --data-path chemprop.csv --task-type classification --splits-column split\n"
    )


def test_chemprop_classes_are_numbers_and_soft_labels_are_left_out(home, tmp_path):
    from tests.support.run_stages import run_stage

    table = home / "classes.csv"
    names = ("acid", "base", "neither")
    rows = [f"{text},{names[n % 3]}" for n, text in enumerate(SMILES[::2])]
    table.write_text("\n".join(["smiles,kind", *rows]) + "\n")
    result = run("prepare", "--smiles", table, "--target", "kind", "--store", home / "store",
                 "--json")  # fmt: skip
    assert result.code == 0, result.err
    source = Store.at(home / "store").resolve(json.loads(result.out)["key"])
    assert Corpus(source).info.outputs == names
    options = {"options": "001", "count": 30, "bridges": "random"}
    corpus = Corpus(run_stage(home / "store", "generate", options, {"prepare": source}))
    manifest = write(corpus, tmp_path / "out", "chemprop").manifest
    soft = len(corpus.table(split="train")) - len(hard(corpus, "train"))
    assert soft > 0
    frame = pd.read_csv(tmp_path / "out" / "chemprop.csv")
    assert (frame["split"] == "train").sum() == len(hard(corpus, "train"))
    assert manifest.counts["train"] == len(hard(corpus, "train"))
    assert set(frame["class"]) == {0, 1, 2}
    assert "--multiclass-num-classes 3" in (tmp_path / "out" / "train.sh").read_text()
    with pytest.raises(UsageError, match="chemprop reads one class per molecule"):
        export(corpus, [corpus.artifact.manifest], tmp_path / "soft", "chemprop", labels="soft")


def test_molecule_formats_refuse_other_corpora_and_leave_nothing(corpus, tmp_path):
    for format_name in ("smi", "sdf", "chemprop"):
        with pytest.raises(UsageError, match=r"has no molecules \(no column `smiles`\)"):
            export(corpus, [corpus.artifact.manifest], tmp_path / "out", format_name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("mode", "kept", "expected"),
    [("same-class", [0, 2], [[1.0], [np.nan]]), ("argmax", [0, 1, 2], [[1.0], [1.0], [np.nan]]),
     ("soft", [0, 1, 2], [[1.0], [0.75], [np.nan]])],
)  # fmt: skip
def test_soft_binary_labels_are_dropped_rounded_or_kept(corpus, mode, kept, expected):
    import msgspec

    info = msgspec.structs.replace(corpus.info, task="binary", outputs=("active",))
    y = np.array([[1.0], [0.75], [np.nan]], dtype=np.float32)
    table = corpus.table().slice(0, 3).with_columns(graph={"y": y})
    selected, labels = apply_label_mode(table, info, mode)
    assert selected.graph["graph_id"].tolist() == table.graph["graph_id"][kept].tolist()
    assert np.array_equal(labels, np.array(expected, dtype=np.float32), equal_nan=True)


def test_zarr_export_copies_out_of_the_store(corpus, home, tmp_path):
    result = run("export", corpus.key[:12], tmp_path / "out", "--to", "zarr",
               "--store", home / "store")  # fmt: skip
    assert result.code == 0
    assert gsx.open(tmp_path / "out", format="zarr").table().equals(corpus.table())
