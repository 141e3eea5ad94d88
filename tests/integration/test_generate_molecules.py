"""Spliced molecules: every one of them is a molecule, and says so."""

from itertools import product

import numpy as np
import pytest
from rdkit import Chem

from gsx.errors import UsageError
from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.ragged import texts_of
from gsx.schema import ORIGINS
from gsx.stages.chem.features import molecular
from gsx.stages.chem.fragments import units
from gsx.stages.chem.smiles_reader import read_molecules
from gsx.stages.graphs.subgraphs import global_edges, is_connected
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.support.run_stages import run_stage

LEFT = ("C", "CC", "CO", "N", "CN(C)", "FC(F)(F)", "C#CC", "N#CC", "O=C(O)C", "CS")
RINGS = ("c1ccc({})cc1", "c1cc({})cnc1", "C1CCN({})CC1", "c1cc2c(cc1{})[nH]cc2", "C1CC1{}")
RIGHT = ("C(=O)O", "S(=O)(=O)N", "[N+](=O)[O-]", "OCC", "C(=O)NCC", "Br", "P(=O)(O)O")
SMILES = [
    left + ring.format("CC" + right)
    for left, ring, right in product(LEFT, RINGS, RIGHT)
]  # fmt: skip
SALTS = ["C" * length + "C(=O)[O-].[Na+]" for length in range(20, 30)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A source of 350 molecules, its pieces, bridges and splices; extractors are quick here."""
    folder = tmp_path_factory.mktemp("molecules")
    raw = folder / "raw" / "hiv"
    raw.mkdir(parents=True)
    rows = [f"{text},CI,{int('N' in text or 'n' in text)}" for text in (*SMILES, *SALTS)]
    (raw / "HIV.csv").write_text("\n".join(["smiles,activity,HIV_active", *rows]) + "\n")
    text = (
        '[prepare]\ndataset = "hiv-size"\n'
        "[extract]\nnode_epochs = 1\nset_epochs = 1\n[bridge]\nepochs = 4\n"
        "[generate]\ncount = 150\nf = [1, 3]\n"
    )
    plan = make_plan(parse_recipe(text, "r.toml", raw=str(raw.parent)))
    found = {step.name: built.artifact for step, built in run_plan(plan, Store.at(folder))}
    return {"folder": folder, **found}


@pytest.fixture(scope="module")
def spliced(made):
    table = Corpus(made["generate"]).table(split="train")
    return table.filter(table.dense("graph", "origin") > 0)


def test_a_corpus_of_molecules_is_known_as_such(made, motif_path):
    assert molecular(Corpus(made["prepare"]).info)
    assert not molecular(Corpus(Store.at(motif_path.parent.parent).resolve(str(motif_path))).info)


def test_every_splice_parses_as_what_it_is(spliced):
    texts = texts_of(spliced.lists("graph", "smiles"))
    again = read_molecules(texts)
    assert not again.refused
    assert again.table.num_nodes.tolist() == spliced.num_nodes.tolist()
    assert (again.table.num_edges == spliced.num_edges).all()
    plain = spliced.select(["node_feat", "edge_attr"])
    assert np.array_equal(wl_hashes(again.table), wl_hashes(plain))


@pytest.mark.parametrize(("rule", "ruling"), [("any", 1.0), ("all", 0.0)])
def test_one_answer_of_whole_graphs_rules(made, rule, ruling):
    given = {name: made[name] for name in ("prepare", "bridge")}
    options = {"options": "001", "count": 40, "labels": rule, "augmented_only": True}
    table = Corpus(run_stage(made["folder"], "generate", options, given)).table()
    source = Corpus(made["prepare"]).table(split="train", columns=["graph_id", "y"])
    y_of = dict(zip(source.graph["graph_id"].tolist(), source.graph["y"][:, 0], strict=True))
    parents = table.lists("graph", "provenance.parents")
    said = [
        {y_of[int(id_)] for id_ in row.tolist()}
        for row in np.split(parents.values, parents.ptr[1:-1])
    ]
    assert {0.0, 1.0} in said
    rules = [ruling in answers for answers in said]
    assert table.graph["y"][:, 0].tolist() == np.where(rules, ruling, 1 - ruling).tolist()


def test_no_atom_has_more_bonds_than_it_can_take(spliced):
    for text in texts_of(spliced.lists("graph", "smiles")):
        molecule = Chem.MolFromSmiles(text, sanitize=False)
        assert Chem.DetectChemistryProblems(molecule) == ()


def test_splices_are_connected_and_none_was_refused_for_its_valences(made, spliced):
    assert is_connected(spliced).all()
    for number in (1, 2, 3):
        quality = made["generate"].manifest.summary["quality"][f"option_{number}"]
        assert "not a molecule" not in quality["refused"]


def test_no_ring_and_no_multiple_bond_is_cut(made, spliced):
    """All atoms of a unit of the source are in the splice, or none."""
    source = Corpus(made["prepare"]).table(split="train")
    unit = units(source)
    row_of = {int(id_): row for row, id_ in enumerate(source.graph["graph_id"])}
    sizes = np.bincount(unit)
    parents = spliced.lists("graph", "provenance.parents")
    slot = spliced.lists("graph", "provenance.node_slot").values
    number = spliced.lists("graph", "provenance.node_number").values
    component = np.repeat(parents.ptr[:-1], spliced.num_nodes) + slot
    rows = np.array([row_of[int(id_)] for id_ in parents.values])
    place = unit[source.node_ptr[rows[component]] + number]
    _, first, counts = np.unique(
        component * len(sizes) + place, return_index=True, return_counts=True
    )
    assert (counts == sizes[place[first]]).all()


def test_bridges_are_single_bonds_between_pieces(spliced):
    bridges = spliced.lists("graph", "provenance.bridges")
    at = np.repeat(spliced.edge_ptr[:-1], np.diff(bridges.ptr)) + bridges.values
    assert set(spliced.edge["edge_attr"][at, 0].tolist()) == {1}
    joints = np.diff(spliced.lists("graph", "provenance.parents").ptr) - 1
    assert (np.diff(bridges.ptr) == 2 * joints).all()
    src, dst = global_edges(spliced)
    slot = spliced.lists("graph", "provenance.node_slot").values
    assert (slot[src[at]] != slot[dst[at]]).all()


def test_salts_are_not_spliced_whole(made, spliced):
    source = Corpus(made["prepare"]).table(split="train")
    salts = source.graph["graph_id"][~is_connected(source)]
    assert len(salts) >= 3
    told = made["generate"].manifest.summary["quality"]["source"]
    assert told["not_connected"] == len(salts)
    whole = spliced.filter(spliced.dense("graph", "origin") == ORIGINS.index("g_whole"))
    assert not np.isin(whole.lists("graph", "provenance.parents").values, salts).any()


def test_quality_tells_novelty_and_properties_beside_the_source(made):
    found = made["generate"].manifest.summary["quality"]["option_3"]["molecules"]
    assert found["scaffold_novelty"] == 1.0
    assert found["properties"]["weight"][2] > found["source_properties"]["weight"][2]


def test_pieces_are_compared_with_scaffolds_in_every_environment(made):
    found = made["extract"].manifest.summary["quality"]["scaffold"]
    environments = {
        int(env) for env in Corpus(made["prepare"]).table(split="train").graph["env_id"]
    }
    assert {row["env_id"] for row in found["per_environment"]} == environments
    for row in (found, *found["per_environment"]):
        assert all(0 <= row[name] <= 1 for name in row if name not in ("env_id", "per_environment"))
        assert 0 < row["causal_share"] < 1


@pytest.mark.parametrize("options", [{"grow": 2.0}, {"chords": 0.1}])
def test_growth_and_chords_are_refused_for_molecules(made, options):
    given = {name: made[name] for name in ("prepare", "extract", "bridge")}
    (name,) = options
    with pytest.raises(UsageError, match=f"`{name}` knows no valences; molecules take none"):
        run_stage(made["folder"], "generate", options, given)


def test_bridge_nodes_are_refused_for_molecules(made):
    given = {name: made[name] for name in ("prepare", "extract", "bridge")}
    with pytest.raises(UsageError, match="molecules take none"):
        run_stage(made["folder"], "generate", {"bridge_nodes": True}, given)
