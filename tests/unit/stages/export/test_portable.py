"""Portable corpora are read by common tools, without gsx."""

import csv
import json
import os
import shutil
import subprocess

import msgspec
import numpy as np
import pytest

import gsx
from gsx.errors import ArtifactError, StoreError, UsageError
from gsx.schema import ORIGINS
from gsx.stages.export.export import export, today
from gsx.stages.export.templates import load_pyg
from gsx.storage.artifacts.digest import sha256_bytes
from gsx.storage.artifacts.lineage import lineage_manifests
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import FileEntry, encode_manifest, files_digest
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.sharing.bundle import Bundle
from tests.support.artifacts import contents
from tests.support.artifacts import gsx as run
from tests.support.make_golden import pages
from tests.support.no_gsx_process import run_without_gsx
from tests.support.run_stages import run_recipe

RECIPE = """
[prepare]
dataset = "motif-size"
num_graphs = 300
shard_graphs = 100
[generate]
options = "001"
count = 60
bridges = "none"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("portable")


@pytest.fixture(scope="module")
def artifact(home):
    return run_recipe(home / "store", RECIPE)["generate"]


@pytest.fixture(scope="module")
def folder(artifact, home):
    """An exported corpus of 300 source graphs and 60 spliced ones."""
    store = Store.at(home / "store")
    export(Corpus(artifact), lineage_manifests(store, artifact), home / "out")
    return home / "out"


def test_files_of_a_portable_corpus(folder):
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {name for name in names if "/" not in name} == {
        "README.md", "SHA256SUMS", "corpus.json", "croissant.json", "env_table.json",
        "load_pyg.py", "manifest.json", "run.json",
    }  # fmt: skip
    assert {name for name in names if name.startswith("splits/")} == {
        f"splits/{split}.csv" for split in ("train", "id_val", "id_test", "ood_val", "ood_test")
    }
    assert len([name for name in names if name.startswith("data/train-")]) == 3
    assert len([name for name in names if name.startswith("lineage/")]) == 2


def test_sha256sum_accepts_every_file(folder):
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert checked.stdout.count(": OK") == len(list(folder.rglob("*.*"))) - 2  # manifest, run


def test_gsx_opens_and_verifies_it_as_a_corpus(folder, artifact):
    assert run("verify", folder).out.startswith("ok ")
    assert gsx.open(folder).table().equals(Corpus(artifact).table())
    assert json.loads(run("show", folder, "--json").out)["splits"]["train"] == 240


def test_shards_keep_their_bytes(folder, artifact):
    for path in (artifact.location.local / "data").iterdir():
        assert (folder / "data" / path.name).read_bytes() == path.read_bytes()


def test_pyarrow_pandas_polars_and_duckdb_read_the_same_values(folder):
    code = """
import pyarrow.parquet as pq, pandas, polars, duckdb, glob
files = sorted(glob.glob('data/train-*.parquet'))
arrow = sum(sum(pq.read_table(f)['num_nodes'].to_pylist()) for f in files)
frame = pandas.concat([pandas.read_parquet(f) for f in files])
assert frame['node_feat'].iloc[0][0].shape == (1,)
lazy = polars.scan_parquet('data/train-*.parquet')
assert lazy.collect_schema()['node_feat'] == polars.List(polars.Array(polars.Float32, 1))
sums = duckdb.sql("select sum(len(node_feat)), count(*) from 'data/train-*.parquet'").fetchall()[0]
slots = duckdb.sql("select count(*) from 'data/train-*.parquet' "
                   "where len(provenance.parents) >= 2 and origin = 'g_whole'").fetchall()[0]
print(arrow, frame['num_nodes'].sum(), lazy.select(polars.col('num_nodes').sum()).collect().item(),
      sums[0], sums[1], slots[0])
"""
    sums = list(map(int, run_without_gsx(code, folder).stdout.split()))
    nodes = int(gsx.open(folder).table(split="train").total_nodes)
    assert sums == [nodes, nodes, nodes, nodes, 240, 60]


def test_hugging_face_datasets_loads_and_streams_it(folder):
    code = """
import datasets, os
here = os.getcwd()
whole = datasets.load_dataset(here)
print({name: len(part) for name, part in whole.items()})
print(whole['train'].features['node_feat'], whole['train'].features['y'])
parts = ('source', 'augmented')
print({name: len(datasets.load_dataset(here, name, split='train')) for name in parts})
rows = list(datasets.load_dataset(here, split='train', streaming=True))
print(len(rows), rows[-1]['origin'], len(rows[-1]['edge_src']) == rows[-1]['num_edges'])
sys.stdout.flush()
os._exit(0)  # threads of the stream may outlive the interpreter
"""
    lines = run_without_gsx(code, folder, strict=False).stdout.splitlines()
    assert lines[0] == (
        "{'train': 240, 'id_val': 30, 'id_test': 30, 'ood_val': 30, 'ood_test': 30}"
    )
    assert lines[1] == "List(List(Value('float32'), length=1)) List(Value('float32'), length=3)"
    assert lines[2] == "{'source': 180, 'augmented': 60}"
    assert lines[3] == "240 g_whole True"


def test_croissant_is_valid_and_yields_every_record(folder):
    code = """
import itertools, mlcroissant
from absl import logging
logged = []
logging.get_absl_logger().warning = lambda *words, **_: logged.append(words)
dataset = mlcroissant.Dataset('croissant.json')
assert not dataset.metadata.ctx.issues.warnings, dataset.metadata.ctx.issues.report()
assert not dataset.metadata.ctx.issues.errors and not logged, logged
assert dataset.metadata.data_limitations and dataset.metadata.personal_sensitive_information
print([row['splits/name'] for row in dataset.records('splits')])
print([row['environments/origin'] for row in dataset.records('environments')])
rows = list(dataset.records('graphs'))
print(len(rows), sum(row['graphs/num_nodes'] for row in rows))
row = next(row for row in rows if row['graphs/origin'] == b'g_whole')
print(len(row['graphs/provenance.parents']) >= 2, len(row['graphs/node_feat'][0]))
"""
    lines = run_without_gsx(code, folder, strict=False).stdout.splitlines()
    assert lines[0] == str(["train", "id_val", "id_test", "ood_val", "ood_test"])
    assert lines[1].count("source") == 3
    assert lines[2] == f"360 {gsx.open(folder).table().total_nodes}"
    assert lines[3] == "True 1"


def test_croissant_contains_the_hash_of_every_shard(folder):
    document = json.loads((folder / "croissant.json").read_text())
    manifest = json.loads((folder / "manifest.json").read_text())
    hashes = {
        entry["contentUrl"]: entry["sha256"]
        for entry in document["distribution"]
        if entry["@type"] == "cr:FileObject"
    }
    shards = {k: v["sha256"] for k, v in manifest["files"].items() if k.endswith(".parquet")}
    assert hashes == shards


def test_shipped_loader_and_gsx_load_equal_graphs(folder, tmp_path):
    code = f"""
import json, load_pyg, torch
from torch_geometric.loader import DataLoader
for split in ('train', 'ood_test'):
    dataset = load_pyg.load(split)
    batch = next(iter(DataLoader(dataset, batch_size=len(dataset))))
    names = ('x', 'edge_index', 'y', 'label', 'env_id', 'graph_id', 'ptr')
    torch.save({{name: batch[name] for name in names}}, {str(tmp_path)!r} + f'/{{split}}.pt')
print(len(load_pyg.load('train', env=[0, 2])), len(load_pyg.load('train', origin='source')),
      load_pyg.load('train').num_classes,
      int(load_pyg.load('train', extras=['node_truth'])[0].node_truth.sum()))
"""
    output = run_without_gsx(code, folder, strict=False).stdout.split()
    import torch

    corpus = gsx.open(folder)
    train = corpus.table(split="train").graph
    assert int(output[0]) == int(np.isin(train["env_id"], [0, 2]).sum())
    assert output[1:3] == ["180", "3"]
    assert int(output[3]) == int(corpus.table(split="train").slice(0, 1).node["node_truth"].sum())
    for split in ("train", "ood_test"):
        theirs = torch.load(tmp_path / f"{split}.pt", weights_only=True)
        (ours,) = corpus.loader(10_000, split=split)
        for name, value in theirs.items():
            assert torch.equal(ours[name], value), name


def test_split_tables_list_all_graphs(folder):
    with (folder / "splits" / "train.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    table = gsx.open(folder).table(split="train")
    assert [int(row["graph_id"]) for row in rows] == table.graph["graph_id"].tolist()
    assert [ORIGINS.index(row["origin"]) for row in rows] == table.graph["origin"].tolist()
    assert [int(row["num_nodes"]) for row in rows] == table.num_nodes.tolist()


def test_a_node_labelled_corpus_is_portable(tmp_path):
    store = Store.at(tmp_path / "store")
    artifact = pages(store)
    export(Corpus(artifact), lineage_manifests(store, artifact), tmp_path / "out")
    assert run("verify", tmp_path / "out").code == 0
    assert (tmp_path / "out/splits/ood_test.csv").read_text().splitlines() == [
        "graph_id,node,env_id,domain_id,label", "7,3,0,-1,-1",
    ]  # fmt: skip
    code = """
import load_pyg, datasets, mlcroissant, os
data = load_pyg.load('all')[0]
print(data.x.to_dense().tolist(), data.test_mask.tolist(), data.env_id.tolist())
print(len(list(mlcroissant.Dataset('croissant.json').records('graphs'))))
print(len(datasets.load_dataset(os.getcwd(), split='graphs')))
"""
    lines = run_without_gsx(code, tmp_path / "out", strict=False).stdout.splitlines()
    dense = gsx.open(artifact.location.local)[0].x.to_dense().tolist()
    assert lines == [f"{dense} [False, False, False, True] [0, 1, -1, 0]", "1", "1"]


def test_a_corpus_stored_as_zarr_is_written_as_parquet(tmp_path):
    artifact = run_recipe(
        tmp_path / "store",
        '[prepare]\ndataset = "motif-base"\nnum_graphs = 60\nformats = ["zarr"]\n',
    )["prepare"]
    exported, _ = export(Corpus(artifact), [artifact.manifest], tmp_path / "out")
    assert not list((tmp_path / "out").glob("zarr"))
    assert Corpus(exported).table().equals(Corpus(artifact).table())


def test_an_export_can_be_exported_again_with_its_lineage(folder, tmp_path):
    artifact = Artifact.open(Location.at(folder))
    again, _ = export(
        Corpus(artifact), lineage_manifests(Store.at(tmp_path), artifact), tmp_path / "again"
    )
    stages = {
        json.loads(path.read_text())["stage"] for path in (tmp_path / "again/lineage").iterdir()
    }
    assert stages == {"export", "generate", "prepare"}
    assert run("verify", tmp_path / "again").code == 0
    assert Corpus(again).table().equals(Corpus(artifact).table())


def test_the_same_day_gives_the_same_bytes(artifact, home, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    lineage = lineage_manifests(Store.at(home / "store"), artifact)
    for name in ("a", "b"):
        export(Corpus(artifact), lineage, tmp_path / name)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert json.loads((tmp_path / "a/croissant.json").read_text())["datePublished"] == "1970-01-02"


def test_a_second_export_reuses_the_first_on_any_day(artifact, home, tmp_path, monkeypatch):
    lineage = lineage_manifests(Store.at(home / "store"), artifact)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert export(Corpus(artifact), lineage, tmp_path / "a")[1] is False
    before = contents(tmp_path / "a")
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert export(Corpus(artifact), lineage, tmp_path / "a")[1] is True
    assert contents(tmp_path / "a") == before


def test_an_invalid_source_date_epoch_is_refused(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    with pytest.raises(
        UsageError, match="SOURCE_DATE_EPOCH: `today` is not a number of seconds since 1970"
    ):
        today()


def test_a_non_empty_target_is_refused_and_unchanged(artifact, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/thesis.txt").write_text("do not lose")
    with pytest.raises(StoreError, match="out is not empty; nothing was written"):
        export(Corpus(artifact), [artifact.manifest], tmp_path / "out")
    assert contents(tmp_path / "out") == {"thesis.txt": b"do not lose"}


def test_a_tampered_shard_is_not_exported(home, artifact, tmp_path):
    import shutil

    copied = shutil.copytree(artifact.location.local, tmp_path / "copied")
    copied_artifact = Artifact.open(Location.at(copied))
    shard = copied / "data/ood_test-00000-of-00001.parquet"
    shard.chmod(0o644)
    shard.write_bytes(shard.read_bytes()[:-1] + b"!")
    with pytest.raises(ArtifactError, match="changed after it was verified"):
        export(Corpus(copied_artifact), [artifact.manifest], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copied"]


def test_a_shard_that_changes_during_the_copy_is_detected(artifact, tmp_path, monkeypatch):
    import shutil

    from gsx.storage.sharing import bundle

    copied = shutil.copytree(artifact.location.local, tmp_path / "copied")
    copied_artifact = Artifact.open(Location.at(copied))
    copyfileobj = shutil.copyfileobj

    def change_and_copy(source, target, length):
        for shard in (copied / "data").iterdir():
            shard.chmod(0o644)
            with shard.open("r+b") as file:
                file.seek(-1, 2)
                file.write(b"!")
        return copyfileobj(source, target, length)

    monkeypatch.setattr(bundle.shutil, "copyfileobj", change_and_copy)
    with pytest.raises(ArtifactError, match="changed"):
        export(Corpus(copied_artifact), [artifact.manifest], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copied"]


def test_unverified_files_are_hashed_during_the_copy(artifact, tmp_path, monkeypatch):
    from gsx.storage.sharing import bundle

    monkeypatch.setattr(bundle.shutil, "copyfileobj", None)
    peeked = Artifact.peek(artifact.location)
    export(Corpus(peeked), [artifact.manifest], tmp_path / "out")
    assert run("verify", tmp_path / "out").code == 0


def test_a_full_disk_leaves_nothing(artifact, tmp_path, monkeypatch):
    import errno

    def full(self, name, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Bundle, "add", full)
    with pytest.raises(StoreError, match="no space left on"):
        export(Corpus(artifact), [artifact.manifest], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_command_prints_path_counts_and_reuse(artifact, home, tmp_path):
    result = run("export", artifact.key[:12], tmp_path / "out", "--store", home / "store", "--json")
    values = json.loads(result.out)
    assert values["path"] == str(tmp_path / "out")
    assert values["counts"]["train"] == 240
    assert values["reused"] is False
    again = run("export", artifact.key[:12], tmp_path / "out", "--store", home / "store")
    assert "reused" in again.out


def test_the_command_requires_a_directory(artifact, home):
    result = run("export", artifact.key[:12], "--store", home / "store")
    assert result.code == 2
    assert result.err == (
        f"Error: no target directory: `gsx export {artifact.key[:12]} --to portable DIR`\n"
    )


def test_generate_out_writes_a_portable_corpus(home, tmp_path):
    source = next(a for a in Store.at(home / "store").artifacts("corpus")
                  if a.manifest.stage == "prepare")  # fmt: skip
    result = run(
        "generate", source.key[:12], "--options", "001", "--count", 60, "--bridges", "none",
        "--store", home / "store", "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    assert json.loads(result.out)["path"] == str(tmp_path / "out")
    assert (tmp_path / "out/README.md").read_text().startswith("---\npretty_name: ")


def tampered(folder, tmp_path, kind):
    """Copy an exported corpus and change one of its files."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    shard = copy / "data/train-00000-of-00003.parquet"
    if kind == "changed":
        shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    elif kind == "longer":
        shard.write_bytes(shard.read_bytes() + b"x")
    elif kind == "link":
        shard.rename(tmp_path / "shard")
        shard.symlink_to(tmp_path / "shard")
    elif kind == "linked folder":
        (copy / "data").rename(tmp_path / "data")
        (copy / "data").symlink_to(tmp_path / "data")
    elif kind == "pipe":
        shard.unlink()
        os.mkfifo(shard)
    elif kind == "description":
        (copy / "corpus.json").write_text("{}")
    elif kind == "missing":
        shard.unlink()
    return copy


@pytest.mark.parametrize(
    ("kind", "message"),
    [("changed", "is damaged"), ("longer", "has more than"), ("link", "is not a regular file"),
     ("linked folder", "is not a regular file"), ("pipe", "is not a regular file"),
     ("description", "corpus.json is damaged"), ("missing", "is not a regular file")],
)  # fmt: skip
def test_the_loader_refuses_changed_files(folder, tmp_path, kind, message):
    with pytest.raises(ValueError, match=message):
        load_pyg.load("train", folder=tampered(folder, tmp_path, kind))


def test_the_loader_reads_listed_files_only(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    shard = copy / "data/train-00000-of-00003.parquet"
    shutil.copy(shard, copy / "data/train-00003-of-00003.parquet")
    assert len(load_pyg.load("train", folder=copy)) == len(load_pyg.load("train", folder=folder))
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["files"]["../copy/data/train-00009-of-00009.parquet"] = manifest["files"].pop(
        "data/train-00000-of-00003.parquet"
    )
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert len(load_pyg.load("train", folder=copy)) < len(load_pyg.load("train", folder=folder))
    for split in ("../data/train", "x", "*", "train-00000-of-00003"):
        with pytest.raises(FileNotFoundError, match="no shards of split"):
            load_pyg.load(split, folder=folder)


def test_all_files_of_a_generated_corpus_are_exported(artifact, folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {name.split("/")[0] for name in artifact.manifest.files} >= {"data", "hashes"}
    for name, entry in artifact.manifest.files.items():
        assert manifest["files"][name]["sha256"] == entry.sha256


def test_files_that_gsx_does_not_know_are_not_exported(artifact, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(artifact.location.local, source)
    (source / "data/page.html").write_bytes(b"<script>")
    entry = FileEntry(size=8, sha256=sha256_bytes(b"<script>"))
    files = {**artifact.manifest.files, "data/page.html": entry}
    manifest = msgspec.structs.replace(artifact.manifest, files=files, digest=files_digest(files))
    (source / "manifest.json").write_bytes(encode_manifest(manifest))
    export(Corpus(Artifact.open(Location.at(source))), [manifest], tmp_path / "out")
    assert not (tmp_path / "out/data/page.html").exists()
