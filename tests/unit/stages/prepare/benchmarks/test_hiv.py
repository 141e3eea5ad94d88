"""HIV datasets: splits, dropped rows, raw files and error messages."""

import gzip
import json

import numpy as np
import pytest

from gsx.errors import StageError, UsageError
from gsx.pipeline.plan import identity_of, make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.ragged import decode_texts
from gsx.stages.block_executor import ProcessExecutor
from gsx.stages.chem import smiles_reader
from gsx.stages.prepare import molecule_dataset
from gsx.stages.prepare.benchmarks import hiv
from gsx.stages.prepare.dataset import DatasetRequest
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.validation import validate_table

HEADER = "smiles,activity,HIV_active\n"
CHAINS = "".join(f"{'C' * (length + 1)}O,CI,{length % 2}\n" for length in range(20))
"""Twenty alcohols with 2 to 21 heavy atoms."""
TEXT = HEADER + CHAINS


@pytest.fixture
def raw(tmp_path):
    return write_table(tmp_path / "raw", TEXT)


def write_table(folder, text, name="hiv/HIV.csv"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        gzip.compress(text.encode(), mtime=0) if name.endswith(".gz") else text.encode()
    )
    return folder


def open_dataset(folder, name="hiv-size", seed=0):
    files = {"hiv/HIV.csv": folder / "hiv/HIV.csv"}
    return hiv.open_hiv(DatasetRequest(name=name, num_graphs=None, seed=seed, raw=files))


def graphs_by_id(dataset):
    """Return all graphs by their id."""
    tables = [dataset.build(split, 0, size) for split, size in dataset.split_sizes.items()]
    return {
        int(number): (table, row)
        for table in tables
        for row, number in enumerate(table.graph["graph_id"])
    }


def plan_of(name, folder, more=""):
    recipe = parse_recipe(f'[prepare]\ndataset = "{name}"\n{more}', "t.toml", raw=str(folder))
    return make_plan(recipe)


def prepare_corpus(tmp_path, folder):
    ((_, built),) = run_plan(plan_of("hiv-size", folder), Store.at(tmp_path / "store"))
    return built.artifact


def test_training_molecules_are_large_and_test_molecules_small(raw):
    dataset = open_dataset(raw)
    assert dataset.split_sizes == {
        "train": 12, "id_val": 2, "id_test": 2, "ood_val": 2, "ood_test": 2,
    }  # fmt: skip
    assert dataset.build("ood_test", 0, 2).num_nodes.tolist() == [2, 3]
    assert dataset.build("ood_val", 0, 2).num_nodes.tolist() == [4, 5]
    assert [env.name for env in dataset.info.environments[:2]] == ["atoms 21..21", "atoms 20..20"]
    assert dataset.info.environments[9].name == "atoms 6..12"
    assert dataset.info.domains[:2] == ("2 atoms", "3 atoms")


def test_training_and_id_molecules_have_environments(raw):
    dataset = open_dataset(raw)
    for split, size in dataset.split_sizes.items():
        env = dataset.build(split, 0, size).graph["env_id"]
        assert (env == -1).all() if split.startswith("ood") else (env >= 0).all()


def test_held_out_rows_depend_on_the_seed_only(raw):
    ids = [open_dataset(raw, seed=seed).build("id_test", 0, 2).graph["graph_id"].tolist()
           for seed in (0, 0, 1)]  # fmt: skip
    assert ids[0] == ids[1] != ids[2]


def test_every_split_matches_the_schema(raw):
    for name in ("hiv-size", "hiv-scaffold"):
        dataset = open_dataset(raw, name)
        for split, size in dataset.split_sizes.items():
            table = dataset.build(split, 0, size)
            validate_table(table, dataset.info)
            names = {*table.graph, *table.node, *table.edge}
            assert names == {column.name for column in dataset.info.columns}


def test_scaffolds_are_sorted_as_text_with_the_empty_scaffold_first(tmp_path):
    rings = ("c1ccccc1C", "C1CC1C", "CCO", "c1ccccc1O", "n1ccccc1", "C1CCC1N", "O1CCOC1", "CCC")
    rows = "".join(f"{text},CI,0\n" for text in rings)
    dataset = open_dataset(write_table(tmp_path, HEADER + rows), "hiv-scaffold")
    graphs = graphs_by_id(dataset)
    scaffolds = {
        number: (decode_texts(table.graph["scaffold"])[row], int(table.graph["domain_id"][row]))
        for number, (table, row) in graphs.items()
    }
    assert scaffolds == {
        0: ("c1ccccc1", 4), 1: ("C1CC1", 1), 2: ("", 0), 3: ("c1ccccc1", 4), 4: ("c1ccncc1", 5),
        5: ("C1CCC1", 2), 6: ("C1COCO1", 3), 7: ("", 0),
    }  # fmt: skip
    assert dataset.info.domains == ()


def test_graph_ids_are_row_numbers(raw):
    graphs = graphs_by_id(open_dataset(raw))
    assert sorted(graphs) == list(range(20))
    table, row = graphs[3]
    assert decode_texts(table.graph["smiles"])[row] == "CCCCO"
    assert (table.graph["y"][row].tolist(), int(table.graph["label"][row])) == ([1.0], 1)


def test_unreadable_rows_are_split_then_dropped_and_listed(tmp_path):
    text = TEXT + "C(C,CI,1\n,CI,0\nCN(C)(C)C,CI,0\n"
    dataset = open_dataset(write_table(tmp_path, text))
    assert sum(dataset.split_sizes.values()) == 20
    assert dataset.summary["rows"] == {
        "train": 14, "id_val": 2, "id_test": 2, "ood_val": 3, "ood_test": 2,
    }  # fmt: skip
    (dropped,) = dataset.dropped
    assert (dropped.reason, dropped.count) == ("rows of the raw file that RDKit cannot read", 3)
    assert dropped.examples == (
        "row 20: `C(C` is not a valid SMILES string",
        "row 21: the SMILES is empty",
        "row 22: `CN(C)(C)C` cannot be sanitized by RDKit: Explicit valence for atom # 1 N, 4, is "
        "greater than permitted",
    )


def test_manifest_lists_dropped_rows_and_rdkit_version(tmp_path):
    folder = write_table(tmp_path / "raw", TEXT + "C(C,CI,1\n", "hiv/HIV.csv.gz")
    manifest = prepare_corpus(tmp_path, folder).manifest
    assert [(entry.count, entry.examples) for entry in manifest.dropped] == [
        (1, ("row 20: `C(C` is not a valid SMILES string",))
    ]
    assert sum(manifest.counts.values()) == 20
    assert manifest.summary["rdkit"] == smiles_reader.RDKIT_VERSION
    assert list(manifest.raw) == ["hiv/HIV.csv.gz"]
    assert "raw" not in manifest.config


def test_corpus_keeps_the_categories_of_its_features(tmp_path, raw):
    artifact = prepare_corpus(tmp_path, raw)
    corpus = Corpus(artifact)
    atoms = {feature.name: feature.words for feature in corpus.info.column("node_feat").features}
    assert list(atoms) == [
        "atomic_num", "chirality", "degree", "formal_charge", "num_hs", "num_radical_electrons",
        "hybridization", "is_aromatic", "is_in_ring",
    ]  # fmt: skip
    assert atoms["hybridization"][4] == "SP3"
    bonds = {feature.name: feature.words for feature in corpus.info.column("edge_attr").features}
    assert bonds["bond_type"][12] == "AROMATIC"
    assert (corpus.info.task, corpus.info.metric, corpus.info.outputs) == (
        "binary", "roc_auc", ("HIV_active",),
    )  # fmt: skip
    assert corpus[0].x.shape[1] == 9
    described = json.loads((artifact.location.local / "corpus.json").read_text())
    with_words = [column["name"] for column in described["columns"] if "features" in column]
    assert with_words == ["node_feat", "edge_attr"]


def test_key_depends_on_the_content_of_the_file_and_not_on_its_path(tmp_path):
    folders = [
        write_table(tmp_path / "a", TEXT),
        write_table(tmp_path / "b", TEXT),
        write_table(tmp_path / "c", TEXT + "CC,CI,0\n"),
    ]
    keys = [identity_of(plan_of("hiv-size", folder)[0], {}).key for folder in folders]
    assert keys[0] == keys[1] != keys[2]


def test_compressed_file_takes_precedence(tmp_path):
    folder = write_table(tmp_path, "nonsense")
    write_table(tmp_path, TEXT, "hiv/HIV.csv.gz")
    assert list(identity_of(plan_of("hiv-size", folder)[0], {}).raw) == ["hiv/HIV.csv.gz"]


def test_missing_label_is_stored_as_nan(tmp_path):
    graphs = graphs_by_id(open_dataset(write_table(tmp_path, TEXT + "CCCC,CI,\n")))
    table, row = graphs[20]
    assert np.isnan(table.graph["y"][row, 0])
    assert table.graph["label"][row] == -1


def test_repeated_molecules_are_kept(tmp_path):
    graphs = graphs_by_id(open_dataset(write_table(tmp_path, TEXT + "CCO,CI,1\nCCO,CI,0\n")))
    assert len(graphs) == 22


def test_empty_splits_give_warnings(tmp_path):
    dataset = open_dataset(write_table(tmp_path, HEADER + "CCO,CI,1\nCCN,CI,0\n"))
    assert dataset.warnings == (
        "the split `id_val` is empty",
        "the split `id_test` is empty",
        "the split `ood_val` is empty",
        "the split `ood_test` is empty",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "hiv/HIV.csv is empty; expected the HIV table of MoleculeNet (moleculenet.org, "
             "41,127 rows), with the columns smiles and HIV_active."),
        (HEADER, "hiv/HIV.csv has a header but no rows."),
        ("smiles,active\nC,1\n",
         "hiv/HIV.csv has no column `HIV_active`; its header is `smiles,active`. Expected the "
         "HIV table of MoleculeNet (moleculenet.org, 41,127 rows), with the columns smiles and "
         "HIV_active."),
        (HEADER + "C,CI,1\nC,CI\n", "hiv/HIV.csv, row 1 (line 3): 2 fields; the header has 3."),
        (HEADER + "C,CI,maybe\n",
         "hiv/HIV.csv, row 0: HIV_active is `maybe`; expected 0, 1 or an empty cell."),
        (HEADER + "C(,CI,1\n", "hiv/HIV.csv: none of its 1 SMILES is readable"),
    ],
)  # fmt: skip
def test_invalid_tables_are_rejected(tmp_path, text, message):
    with pytest.raises(StageError) as error:
        open_dataset(write_table(tmp_path, text))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"plain", " cannot be read: Not a gzipped file"),
        (gzip.compress(b"smiles", mtime=0)[:-4], " cannot be read: Compressed file ended"),
        (
            gzip.compress(b"\xff", mtime=0),
            ", line 1: invalid UTF-8 byte 0xff. Save the file as UTF-8.",
        ),
    ],
    ids=["not packed", "cut short", "not text"],
)
def test_damaged_files_are_rejected(tmp_path, data, message):
    path = tmp_path / "HIV.csv.gz"
    path.write_bytes(data)
    with pytest.raises(StageError, match=f"^hiv/HIV.csv.gz{message}"):
        hiv.read_rows(path, "hiv/HIV.csv.gz")


def test_missing_raw_files_are_reported(tmp_path):
    advice = (
        "The file is the HIV table of MoleculeNet (moleculenet.org, 41,127 rows), with the columns "
        "smiles and HIV_active. Put it under a directory DIR and pass `--raw DIR` or set "
        "GSX_RAW_DATA.\n`gsx fetch hiv-size --raw DIR` downloads all files."
    )
    with pytest.raises(UsageError) as error:
        parse_recipe('[prepare]\ndataset = "hiv-size"\n', "t.toml")
    assert str(error.value) == (
        f"hiv-size needs hiv/HIV.csv.gz or hiv/HIV.csv, and no raw data directory is set.\n{advice}"
    )
    with pytest.raises(UsageError) as error:
        plan_of("hiv-size", tmp_path)
    assert str(error.value) == (
        f"hiv-size needs hiv/HIV.csv.gz or hiv/HIV.csv, and {tmp_path} does not contain it.\n"
        f"{advice}"
    )


def test_num_graphs_is_rejected(raw):
    with pytest.raises(UsageError) as error:
        plan_of("hiv-size", raw, "num_graphs = 10\n")
    assert str(error.value) == (
        "hiv-size: the raw files set the number of graphs. Remove num_graphs."
    )


def test_recipe_sets_its_raw_data_directory(tmp_path, raw):
    more = f'raw = "{raw}"\n'
    (step,) = plan_of("hiv-size", tmp_path / "elsewhere", more)
    assert step.config.raw == str(raw)


@pytest.mark.slow
def test_published_table_gives_published_splits(hiv_folder, monkeypatch):
    path = hiv_folder / "hiv" / "HIV.csv.gz"
    smiles = hiv.read_rows(path, path.name).smiles
    parsed = molecule_dataset.read_smiles(smiles, ProcessExecutor())
    monkeypatch.setattr(molecule_dataset, "read_smiles", lambda *_: parsed)
    datasets = {
        name: hiv.open_hiv(
            DatasetRequest(name=name, num_graphs=None, seed=0, raw={path.name: path})
        )
        for name in ("hiv-size", "hiv-scaffold")
    }
    assert parsed.refused.rows == [137, 987, 12882, 18293, 30784, 30785, 35728]
    size = datasets["hiv-size"]
    assert list(size.summary["rows"].values()) == [26169, 4112, 4112, 2773, 3961]
    assert sum(size.split_sizes.values()) == 41_120
    assert [env.name.removeprefix("atoms ") for env in size.info.environments] == [
        "40..222", "33..39", "29..32", "27..28", "25..26", "23..24", "21..22", "20..20", "18..19",
        "17..17",
    ]  # fmt: skip
    rates = [
        float(size.build(split, 0, 41_127).graph["y"].mean()) for split in ("ood_val", "ood_test")
    ]
    assert [round(rate, 4) for rate in rates] == [0.0202, 0.0159]
    scaffold = list(datasets["hiv-scaffold"].summary["rows"].values())
    assert sum(scaffold) == 41_127
    published = [24682, 4112, 4112, 4113, 4108]  # with another RDKit
    assert all(
        abs(count - expected) <= 5 for count, expected in zip(scaffold, published, strict=True)
    )
    assert len(datasets["hiv-scaffold"].info.environments) == 10
