"""Motif data with other bases, motifs and directions: options, leave-one-base-out, Motif2."""

import tomllib
from pathlib import Path

import msgspec
import numpy as np
import pytest

from gsx.errors import UsageError
from gsx.pipeline.recipe import parse_config, parse_recipe
from gsx.schema import SPLITS
from gsx.stages.prepare.stage import FAMILIES, PrepareConfig, metadata_of
from gsx.stages.prepare.synthetic.base_graphs import ALL_BASES
from gsx.stages.prepare.synthetic.motif2 import DATASETS as MOTIF2
from gsx.stages.prepare.synthetic.motif_lobo import DATASETS as LOBO
from gsx.storage.corpora.corpus import Corpus
from tests.support.run_stages import run_stage

SPLITS = SPLITS[:5]
ROOT = Path(__file__).parents[5]


def prepared(folder, dataset, num_graphs=400, **options):
    options = {"dataset": dataset, "num_graphs": num_graphs, **options}
    return Corpus(run_stage(folder, "prepare", options, {}))


def names_of(corpus, split, column, names):
    return {names[number] for number in corpus.table(split=split).dense("graph", column).tolist()}


def rejected(dataset, **options):
    with pytest.raises(UsageError) as error:
        parse_config("prepare", {"dataset": dataset, **options}, "test")
    return str(error.value)


def test_bases_and_motifs_can_be_chosen(tmp_path):
    corpus = prepared(
        tmp_path, "motif-base", bases=("grid", "star"), val_bases=("cycle",),
        test_bases=("barbell", "wheel"), motifs=("clique", "bull"), name="mine",
    )  # fmt: skip
    info = corpus.info
    assert (info.name, info.outputs) == ("mine", ("clique", "bull"))
    assert info.domains == ("grid", "star", "cycle", "barbell", "wheel")
    assert [env.name for env in info.environments] == ["grid", "star"]
    bases = {split: names_of(corpus, split, "basis_id", info.domains) for split in SPLITS}
    assert bases["train"] == bases["id_val"] == bases["id_test"] == {"grid", "star"}
    assert (bases["ood_val"], bases["ood_test"]) == ({"cycle"}, {"barbell", "wheel"})
    table = corpus.table()
    clique = table.dense("graph", "motif_id") == 0
    motif_nodes = np.add.reduceat(table.node["node_truth"], table.node_ptr[:-1])
    assert set(motif_nodes[clique]) == {4}
    assert set(motif_nodes[~clique]) == {5}
    columns = {column.name: column.doc for column in info.columns}
    assert columns["basis_id"] == "base: grid, star, cycle, barbell, wheel"
    assert columns["motif_id"] == "motif: clique, bull"


def test_size_can_shift_down(tmp_path):
    down = prepared(tmp_path, "motif-size", direction="descending")
    width = {split: set(down.table(split=split).graph["width_id"].tolist()) for split in SPLITS}
    assert width["train"] == width["id_test"] == {2, 3, 4}
    assert (width["ood_val"], width["ood_test"]) == ({1}, {0})
    assert down.info.name == "motif-size-custom"
    assert [env.name for env in down.info.environments] == [
        "width 10..20",
        "width 25..35",
        "width 65..75",
    ]
    table = down.table(split="train")
    np.testing.assert_array_equal(table.graph["env_id"] + 2, table.graph["domain_id"])
    sizes = {split: down.table(split=split).num_nodes.mean() for split in SPLITS}
    assert sizes["train"] > 2 * sizes["ood_val"] > 2 * sizes["ood_test"]


def test_size_datasets_can_have_other_bases(tmp_path):
    corpus = prepared(tmp_path, "motif-size", bases=("cycle", "barbell"))
    for split in SPLITS:
        assert names_of(corpus, split, "basis_id", ("cycle", "barbell")) == {"cycle", "barbell"}
    assert corpus.info.domains[3:] == ("width 25..35", "width 65..75")


@pytest.mark.parametrize("options", [
    {"bases": ("wheel", "tree", "ladder")},
    {"val_bases": ("star",), "test_bases": ("path",)},
    {"motifs": ("house", "cycle", "crane")},
])  # fmt: skip
def test_options_of_the_published_dataset_give_its_config(options):
    published = parse_config("prepare", {"dataset": "motif-base"}, "test")
    assert parse_config("prepare", {"dataset": "motif-basis", **options}, "test") == published


def test_the_order_of_bases_matters():
    config = parse_config(
        "prepare", {"dataset": "motif-base", "bases": ("tree", "wheel", "ladder")}, "test"
    )
    assert config.name == "motif-base-custom"
    assert config.test_bases == ("path",)


def test_a_name_changes_no_graph(tmp_path):
    one, two = (prepared(tmp_path, "motif-base", bases=("grid",), name=n) for n in ("a", "b"))
    assert one.table().equals(two.table())
    assert (one.info.name, two.info.name) == ("a", "b")


def test_other_options_have_other_random_streams(tmp_path):
    one, two = (
        prepared(tmp_path, "motif-base", test_bases=(base,)).table(split="train")
        for base in ("grid", "cycle")
    )
    assert not np.array_equal(one.graph["motif_id"], two.graph["motif_id"])


def test_recipes_take_the_options():
    text = '[prepare]\ndataset = "motif-size"\nbases = ["grid"]\ndirection = "descending"\n'
    config = parse_recipe(text, "t.toml").configs["prepare"]
    assert (config.bases, config.direction) == (("grid",), "descending")


def test_invalid_options_are_rejected():
    assert rejected("motif-base", bases=("gird",)) == (
        "motif-base: bases: no `gird`. Did you mean `grid`?"
    )
    assert "`grid` is named twice" in rejected("motif-base", bases=("grid", "grid"))
    assert rejected("motif-base", bases=("star",)).startswith(
        "motif-base: `star` is in both bases and val_bases."
    )
    assert "two or more (found 1)" in rejected("motif-size", motifs=("bull",))
    assert "motifs is empty" in rejected("motif-size", motifs=())
    assert "no option `val_bases`" in rejected("motif-size", val_bases=("grid",))
    assert "no option `bases`" in rejected("motif-base-concept", bases=("grid",))
    assert "no option `bases`" in rejected("motif2-base", bases=("grid",))
    assert "the name of a published dataset is fixed" in rejected("motif-base", name="mine")
    assert "the name `motif2-base` is that of a dataset" in rejected(
        "motif-base", bases=("grid",), name="motif2-base"
    )


def test_every_base_is_left_out_once_and_validates_once():
    assert len(LOBO) == len(ALL_BASES) == 10
    tests = [ALL_BASES[dataset.ood_test[0]] for dataset in LOBO.values()]
    vals = [ALL_BASES[dataset.ood_val[0]] for dataset in LOBO.values()]
    assert sorted(tests) == sorted(vals) == sorted(ALL_BASES)
    for name, dataset in LOBO.items():
        assert name == f"motif-lobo-{ALL_BASES[dataset.ood_test[0]]}"
        assert len(dataset.ood_val) == len(dataset.ood_test) == 1
        assert sorted((*dataset.train, *dataset.ood_val, *dataset.ood_test)) == list(range(10))


def test_motif_base_follows_the_rule_of_leave_one_base_out(tmp_path):
    """The base before the left-out one validates: stars, if paths are left out."""
    published, path = (prepared(tmp_path, name, 40) for name in ("motif-base", "motif-lobo-path"))
    for split in ("ood_val", "ood_test"):
        assert names_of(published, split, "basis_id", ALL_BASES) == names_of(
            path, split, "basis_id", ALL_BASES
        )


def test_a_left_out_base_occurs_in_ood_test_only(tmp_path):
    corpus = prepared(tmp_path, "motif-lobo-grid")
    bases = {split: names_of(corpus, split, "basis_id", ALL_BASES) for split in SPLITS}
    assert (bases["ood_val"], bases["ood_test"]) == ({"path"}, {"grid"})
    assert bases["train"] == set(ALL_BASES) - {"path", "grid"}
    table = corpus.table(split="train")
    assert set(table.graph["env_id"].tolist()) == set(range(8))
    names = [env.name for env in corpus.info.environments]
    assert [names[env] for env in table.graph["env_id"]] == [
        ALL_BASES[base] for base in table.graph["basis_id"]
    ]


def test_confirmation_data_are_marked_and_have_no_options(tmp_path):
    marked = {
        name for family in FAMILIES if family.listed for name in family.names
        if metadata_of(name).confirmation
    }  # fmt: skip
    assert marked == {*MOTIF2, *LOBO}
    assert set(MOTIF2) == {"motif2-size", "motif2-size-down", "motif2-base"}
    for name in marked:
        info = prepared(tmp_path, name, num_graphs=40).info
        assert "Confirmation data" in info.description
        assert info.outputs == (
            ("diamond", "bull", "butterfly") if name in MOTIF2 else ("house", "cycle", "crane")
        )


def test_the_protocol_names_the_confirmation_data():
    protocol = tomllib.loads((ROOT / "experiments" / "protocol.toml").read_text())["datasets"]
    assert {*MOTIF2, *LOBO} <= set(protocol["confirmation"])
    for name in protocol["development"]:
        assert not metadata_of(name).confirmation


@pytest.mark.parametrize(("name", "larger"), [("motif2-size", True), ("motif2-size-down", False)])
def test_motif2_sizes_shift_up_and_down(tmp_path, name, larger):
    corpus = prepared(tmp_path, name)
    train, test = (corpus.table(split=split).num_nodes for split in ("train", "ood_test"))
    assert (test.mean() > 2 * train.mean()) if larger else (2 * test.mean() < train.mean())


def test_other_datasets_have_no_new_options():
    config = PrepareConfig(dataset="hiv-size")
    options = {"bases", "val_bases", "test_bases", "motifs"}
    assert not options & msgspec.to_builtins(config).keys()
