"""Molecules of difficult kinds, from a table of SMILES to a verified augmented corpus.

Spliced molecules have canonical SMILES whose atoms are the nodes, and `gsx verify` compares both.
"""

import json

import msgspec
import numpy as np
import pytest
from rdkit import Chem

from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.ragged import decode_texts, encode_texts
from gsx.schema import ORIGINS
from gsx.stages.chem.features import NUM_HS
from gsx.stages.chem.molecule_check import molecule_check
from gsx.stages.chem.smiles_reader import read_molecules
from gsx.stages.graphs.splice import reorder_nodes
from gsx.storage.artifacts.publish import Identity, build_artifact
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import plan_shards, write_corpus
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.artifacts import gsx
from tests.support.difficult_smiles import DIFFICULT
from tests.support.run_stages import run_stage
from tests.support.smiles import SMILES


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Artifacts of difficult and of ordinary molecules, by stage."""
    folder = tmp_path_factory.mktemp("difficult")
    texts = [*DIFFICULT, *SMILES[::7]] * 2
    rows = [f'"{text}",{number % 2}' for number, text in enumerate(texts)]
    (folder / "table.csv").write_text("\n".join(["smiles,active", *rows]) + "\n")
    recipe = (
        f'[prepare]\ndataset = "smiles"\nfile = "{folder / "table.csv"}"\ntargets = ["active"]\n'
        'domain = "size"\nrule = "random"\n'
        "[extract]\nnode_epochs = 1\nset_epochs = 1\n"
        '[generate]\ncount = 400\nbridges = "random"\nf = [1, 4]\nmin_causal_nodes = 1\n'
    )
    plan = make_plan(parse_recipe(recipe, "r.toml"))
    artifacts = {step.name: result.artifact for step, result in run_plan(plan, Store.at(folder))}
    return {"folder": folder, **artifacts}


@pytest.fixture(scope="module")
def spliced(built):
    table = Corpus(built["generate"]).table(split="train")
    return table.filter(table.dense("graph", "origin") > 0)


def smiles_of(table):
    return decode_texts(table.lists("graph", "smiles"))


def test_all_molecules_are_read(built):
    assert Corpus(built["prepare"]).artifact.manifest.dropped == ()


def test_smiles_of_spliced_molecules_are_canonical_and_connected(spliced):
    assert set(spliced.dense("graph", "origin").tolist()) == {
        ORIGINS.index(name) for name in ("g_inv", "g_inv_env", "g_whole")
    }
    texts = smiles_of(spliced)
    assert all(text and "." not in text and "%8" not in text for text in texts)
    assert [Chem.CanonSmiles(text) for text in texts] == texts


def test_node_i_is_atom_i_of_the_smiles(spliced):
    parsed = read_molecules(smiles_of(spliced))
    assert not parsed.refused
    plain = spliced.select(["node_feat", "edge_attr"])
    assert plain.equals(parsed.table)


def test_provenance_names_the_source_of_every_node_in_the_new_order(built, spliced):
    source = Corpus(built["prepare"]).table(split="train")
    row_of = {int(id_): row for row, id_ in enumerate(source.graph["graph_id"])}
    parents = spliced.lists("graph", "provenance.parents")
    slot = spliced.lists("graph", "provenance.node_slot").values
    number = spliced.lists("graph", "provenance.node_number").values
    parent = parents.values[np.repeat(parents.ptr[:-1], spliced.num_nodes) + slot]
    rows = np.array([row_of[int(id_)] for id_ in parent])
    element = source.node["node_feat"][source.node_ptr[rows] + number, 0]
    assert np.array_equal(element, spliced.node["node_feat"][:, 0])
    bridges = spliced.lists("graph", "provenance.bridges")
    at = np.repeat(spliced.edge_ptr[:-1], np.diff(bridges.ptr)) + bridges.values
    start = np.repeat(spliced.node_ptr[:-1], np.diff(bridges.ptr))
    ends = [slot[start + spliced.edge[name][at]] for name in ("edge_src", "edge_dst")]
    assert (ends[0] != ends[1]).all()
    assert (np.diff(bridges.ptr) == 2 * (np.diff(parents.ptr) - 1)).all()


def test_no_spliced_molecule_has_a_hydrogen_that_rdkit_merges(built, spliced):
    source = Corpus(built["prepare"]).table(split="train")
    kept_hydrogens = {text for text in smiles_of(spliced) if "[H]" in text}
    assert all("[H]*" in text or "*[H]" in text for text in kept_hydrogens)
    assert (source.node["node_feat"][:, 0] == 1).any()


def test_the_corpora_verify_and_generation_is_quiet(built, capfd):
    for name in ("prepare", "generate"):
        report = verify_artifact(built[name].location, graph_check=molecule_check)
        assert report.problems == ()
    assert capfd.readouterr() == ("", "")


def test_workers_and_blocks_write_the_same_bytes(built):
    inputs = {name: built[name] for name in ("prepare", "extract")}
    options = {"options": "011", "count": 60, "bridges": "random", "shard_graphs": 20}
    first = run_stage(built["folder"], "generate", options, inputs)
    again = run_stage(built["folder"] / "again", "generate", options, inputs)
    assert first.manifest.digest == again.manifest.digest


def changed_corpus(built, change, name):
    """Publish the training graphs of the augmented corpus after a change; hashes match."""
    corpus = Corpus(built["generate"])
    table = change(corpus.table(split="train"))
    shards = plan_shards({"train": len(table)}, 10_000)
    identity = Identity(kind="corpus", stage="prepare", stage_version=1, config={"change": name})
    return build_artifact(
        Store.at(built["folder"]),
        identity,
        lambda draft: write_corpus(draft, corpus.info, shards, lambda _shard: table),
    ).artifact


def test_verify_reports_smiles_that_do_not_describe_their_graph(built):
    def add_atom(table):
        texts = smiles_of(table)
        rows = [row for row, text in enumerate(texts) if text.endswith("C")][:20]
        for row in rows:
            texts[row] += "C"
        return table.with_columns(graph={"smiles": encode_texts(texts)})

    artifact = changed_corpus(built, add_atom, "atom")
    result = gsx("verify", artifact.location.url)
    assert result.code == 3
    assert result.out.startswith("DAMAGED")
    assert "data holds 20 wrong graphs, such as graph " in result.out
    assert "its SMILES has " in result.out
    as_json = gsx("verify", artifact.location.url, "--json")
    assert json.loads(as_json.out)["ok"] is False


def test_verify_accepts_other_orders_of_atoms_and_graphs_without_smiles(built):
    def reverse(table):
        owner = np.repeat(np.arange(len(table)), table.num_nodes)
        last = table.node_ptr[owner + 1] - 1
        nodes = last - (np.arange(table.total_nodes) - table.node_ptr[owner])
        reordered, _ = reorder_nodes(table, nodes)
        texts = smiles_of(table)
        texts[:5] = [""] * 5
        return reordered.with_columns(graph={"smiles": encode_texts(texts)})

    artifact = changed_corpus(built, reverse, "order")
    assert verify_artifact(artifact.location, graph_check=molecule_check).problems == ()


def test_corpora_without_molecules_have_no_molecule_check(built):
    info = Corpus(built["prepare"]).info
    assert molecule_check(info) is not None
    others = tuple(column for column in info.columns if column.name != "smiles")
    assert molecule_check(msgspec.structs.replace(info, columns=others)) is None


def test_components_that_rdkit_rejects_are_left_out_and_counted(built):

    def break_one(table):
        """Give the first carbon of a molecule eight hydrogens."""
        row = next(row for row, text in enumerate(smiles_of(table)) if text.startswith("C"))
        features = table.node["node_feat"].copy()
        features[table.node_ptr[row], NUM_HS] = 8
        return table.with_columns(node={"node_feat": features})

    source = Corpus(built["prepare"])
    table = break_one(source.table(split="train"))
    shards = plan_shards({"train": len(table)}, 10_000)
    identity = Identity(kind="corpus", stage="prepare", stage_version=1, config={"x": "broken"})
    artifact = build_artifact(
        Store.at(built["folder"]),
        identity,
        lambda draft: write_corpus(draft, source.info, shards, lambda _shard: table),
    ).artifact
    inputs = {"prepare": artifact}
    options = {"options": "001", "count": 30, "bridges": "random"}
    made = run_stage(built["folder"], "generate", options, inputs)
    quality = made.manifest.summary["quality"]["option_3"]
    assert quality["molecules"]["components_left_out"] == 1
    assert "option 3: 1 component left out" in gsx("show", made.location.url).out
