"""Spliced molecules: validity, cuts, bridges, labels and quality metrics."""

import numpy as np
import pytest
from rdkit import Chem

from gsx.errors import UsageError
from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.ragged import decode_texts
from gsx.schema import ORIGINS
from gsx.stages.chem.features import is_molecular
from gsx.stages.chem.fragments import rigid_units
from gsx.stages.chem.smiles_reader import read_molecules
from gsx.stages.graphs.subgraphs import global_edges, is_connected
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.support.run_stages import run_stage
from tests.support.smiles import SMILES

SALTS = ["C" * length + "C(=O)[O-].[Na+]" for length in range(20, 30)]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Artifacts of 350 molecules, by stage; models are trained for few epochs."""
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
    artifacts = {step.name: result.artifact for step, result in run_plan(plan, Store.at(folder))}
    return {"folder": folder, **artifacts}


@pytest.fixture(scope="module")
def spliced(built):
    table = Corpus(built["generate"]).table(split="train")
    return table.filter(table.dense("graph", "origin") > 0)


def test_corpora_of_molecules_are_recognized(built, motif_path):
    assert is_molecular(Corpus(built["prepare"]).info)
    assert not is_molecular(
        Corpus(Store.at(motif_path.parent.parent).resolve(str(motif_path))).info
    )


def test_smiles_of_splices_parse_to_the_same_graphs(spliced):
    texts = decode_texts(spliced.lists("graph", "smiles"))
    parsed = read_molecules(texts)
    assert not parsed.refused
    assert parsed.table.num_nodes.tolist() == spliced.num_nodes.tolist()
    assert (parsed.table.num_edges == spliced.num_edges).all()
    plain = spliced.select(["node_feat", "edge_attr"])
    assert np.array_equal(wl_hashes(parsed.table), wl_hashes(plain))


@pytest.mark.parametrize(("rule", "dominant"), [("any", 1.0), ("all", 0.0)])
def test_label_rules_any_and_all(built, rule, dominant):
    inputs = {name: built[name] for name in ("prepare", "bridge")}
    options = {"options": "001", "count": 40, "labels": rule, "augmented_only": True}
    table = Corpus(run_stage(built["folder"], "generate", options, inputs)).table()
    source = Corpus(built["prepare"]).table(split="train", columns=["graph_id", "y"])
    y_of = dict(zip(source.graph["graph_id"].tolist(), source.graph["y"][:, 0], strict=True))
    parents = table.lists("graph", "provenance.parents")
    answers = [
        {y_of[int(id_)] for id_ in row.tolist()}
        for row in np.split(parents.values, parents.ptr[1:-1])
    ]
    assert {0.0, 1.0} in answers
    has_dominant = [dominant in graph_answers for graph_answers in answers]
    expected = np.where(has_dominant, dominant, 1 - dominant)
    assert table.graph["y"][:, 0].tolist() == expected.tolist()


def test_no_atom_exceeds_its_valence(spliced):
    for text in decode_texts(spliced.lists("graph", "smiles")):
        molecule = Chem.MolFromSmiles(text, sanitize=False)
        assert Chem.DetectChemistryProblems(molecule) == ()


def test_splices_are_connected_and_none_was_rejected_as_invalid(built, spliced):
    assert is_connected(spliced).all()
    for number in (1, 2, 3):
        quality = built["generate"].manifest.summary["quality"][f"option_{number}"]
        assert "not a molecule" not in quality["rejected"]


def test_no_ring_and_no_multiple_bond_is_cut(built, spliced):
    """A splice holds all atoms of a source unit or none."""
    source = Corpus(built["prepare"]).table(split="train")
    unit = rigid_units(source)
    row_of = {int(id_): row for row, id_ in enumerate(source.graph["graph_id"])}
    sizes = np.bincount(unit)
    parents = spliced.lists("graph", "provenance.parents")
    slot = spliced.lists("graph", "provenance.node_slot").values
    number = spliced.lists("graph", "provenance.node_number").values
    component = np.repeat(parents.ptr[:-1], spliced.num_nodes) + slot
    rows = np.array([row_of[int(id_)] for id_ in parents.values])
    source_unit = unit[source.node_ptr[rows[component]] + number]
    _, first, counts = np.unique(
        component * len(sizes) + source_unit, return_index=True, return_counts=True
    )
    assert (counts == sizes[source_unit[first]]).all()


def test_bridges_are_single_bonds_between_components(spliced):
    bridges = spliced.lists("graph", "provenance.bridges")
    at = np.repeat(spliced.edge_ptr[:-1], np.diff(bridges.ptr)) + bridges.values
    assert set(spliced.edge["edge_attr"][at, 0].tolist()) == {1}
    joints = np.diff(spliced.lists("graph", "provenance.parents").ptr) - 1
    assert (np.diff(bridges.ptr) == 2 * joints).all()
    src, dst = global_edges(spliced)
    slot = spliced.lists("graph", "provenance.node_slot").values
    assert (slot[src[at]] != slot[dst[at]]).all()


def test_salts_are_not_spliced_whole(built, spliced):
    source = Corpus(built["prepare"]).table(split="train")
    salts = source.graph["graph_id"][~is_connected(source)]
    assert len(salts) >= 3
    metrics = built["generate"].manifest.summary["quality"]["source"]
    assert metrics["not_connected"] == len(salts)
    whole = spliced.filter(spliced.dense("graph", "origin") == ORIGINS.index("g_whole"))
    assert not np.isin(whole.lists("graph", "provenance.parents").values, salts).any()


def test_quality_holds_scaffold_novelty_and_properties(built):
    metrics = built["generate"].manifest.summary["quality"]["option_3"]["molecules"]
    assert metrics["scaffold_novelty"] == 1.0
    assert metrics["properties"]["weight"][2] > metrics["source_properties"]["weight"][2]


def test_causal_subgraphs_are_compared_with_scaffolds_per_environment(built):
    metrics = built["extract"].manifest.summary["quality"]["scaffold"]
    environments = {
        int(env) for env in Corpus(built["prepare"]).table(split="train").graph["env_id"]
    }
    assert {row["env_id"] for row in metrics["per_environment"]} == environments
    for row in (metrics, *metrics["per_environment"]):
        assert all(0 <= row[name] <= 1 for name in row if name not in ("env_id", "per_environment"))
        assert 0 < row["causal_share"] < 1


@pytest.mark.parametrize("options", [{"grow": 2.0}, {"chords": 0.1}])
def test_growth_and_random_edges_are_rejected_for_molecules(built, options):
    inputs = {name: built[name] for name in ("prepare", "extract", "bridge")}
    (name,) = options
    with pytest.raises(UsageError, match=f"`{name}` does not respect valences"):
        run_stage(built["folder"], "generate", options, inputs)


def test_bridge_nodes_are_rejected_for_molecules(built):
    inputs = {name: built[name] for name in ("prepare", "extract", "bridge")}
    with pytest.raises(UsageError, match="cannot be used with molecules"):
        run_stage(built["folder"], "generate", {"bridge_nodes": True}, inputs)
