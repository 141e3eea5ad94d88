"""Checks by SMILES give the same results as molecules built atom by atom."""

import numpy as np
import pytest
from rdkit import Chem

from gsx.ragged import row_indices
from gsx.seeds import rng
from gsx.stages.chem.check_by_graph import check_by_graph, cut_out_molecules, write_smiles
from gsx.stages.chem.check_by_smiles import UNREADABLE, SpliceSmiles, check_by_smiles
from gsx.stages.chem.fragments import free_valence
from gsx.stages.chem.smiles_reader import read_molecules
from gsx.stages.chem.smiles_text import join_smiles, locate_atoms, splice_smiles
from gsx.stages.graphs.splice import add_edges, reorder_nodes, union
from tests.support.molecules import FEW_SMILES, cut_sides, table_from_smiles


@pytest.fixture(scope="module", params=["few", "hiv"])
def pool(request):
    """Either side of every cut of some molecules, as molecules of their own."""
    texts = FEW_SMILES if request.param == "few" else request.getfixturevalue("hiv_smiles")[:300]
    fragments = cut_out_molecules(*cut_sides(read_molecules(texts).table))
    return fragments.table.filter(fragments.ok).select(["node_feat", "edge_attr"])


def joined(components, ptr, bonds, code=1):
    """Join components by bonds between nodes over all of them; return table and bridges."""
    graphs, _, _ = union(components, np.diff(ptr))
    left, right = bonds.T
    graph = np.searchsorted(graphs.node_ptr, left, side="right") - 1
    bond = np.tile(np.array([[code, 0, 0]], np.uint8), (len(left), 1))
    u, v = left - graphs.node_ptr[graph], right - graphs.node_ptr[graph]
    table, at, position = add_edges(graphs, graph, u, v, {"edge_attr": bond})
    bridges = np.zeros(table.total_edges, dtype=bool)
    bridges[np.repeat(table.edge_ptr[:-1], np.diff(at)) + position] = True
    return table, bridges


def written(components, ptr, bonds, code=1):
    """Join components by bonds between nodes over all of them; return table, bridges, Written."""
    texts, order, _ = write_smiles(components)
    where = locate_atoms(texts, order, components.node_ptr)
    left, right = np.asarray(bonds, dtype=np.int64).reshape(-1, 2).T
    slots = tuple(
        np.searchsorted(components.node_ptr, ends, side="right") - 1 for ends in (left, right)
    )
    spans = (where.start[left], where.end[left], where.start[right], where.end[right])
    smiles = splice_smiles(texts, ptr, slots, spans)
    table, bridges = joined(components, ptr, np.column_stack([left, right]), code)
    slot = row_indices(components.node_ptr)
    return table, bridges, SpliceSmiles(smiles, components.node_ptr[slot] + where.rank, slot)


def chains(pool, count, slots, generator):
    """Join runs of components in a row, each at random atoms that have hydrogens."""
    components = pool.take(generator.integers(0, len(pool), slots * count))
    free = free_valence(components)
    bonds = []
    for row in range(slots * count):
        if row % slots:
            pair = []
            for each in (row - 1, row):
                nodes = np.arange(components.node_ptr[each], components.node_ptr[each + 1])
                fit = nodes[free[nodes] > 0]
                if not len(fit):
                    break
                pair.append(generator.choice(fit))
                free[pair[-1]] -= 1
            else:
                bonds.append(pair)
    return written(components, slots * np.arange(count + 1), bonds)


@pytest.mark.parametrize("slots", [2, 4])
def test_checks_by_smiles_equal_thorough_checks(pool, slots):
    table, bridges, texts = chains(pool, 200, slots, rng(0, "tests", "written", slots))
    quick, thorough = (
        check_by_smiles(table, bridges, texts),
        check_by_graph(table, bridges, thorough=True),
    )
    assert quick.ok.mean() >= 0.99
    assert quick.reasons == thorough.reasons
    assert quick.smiles == thorough.smiles
    np.testing.assert_array_equal(quick.node_feat, thorough.node_feat)
    np.testing.assert_array_equal(quick.edge_attr, thorough.edge_attr)


def test_smiles_of_splices_are_canonical_and_their_atoms_are_the_nodes(pool):
    table, bridges, texts = chains(pool, 200, 3, rng(1, "tests", "written"))
    found = check_by_smiles(table, bridges, texts)
    assert found.ok.mean() >= 0.99
    smiles = [text for text in found.smiles if text]
    assert [Chem.CanonSmiles(text) for text in smiles] == smiles
    again = read_molecules(smiles)
    assert not again.refused
    nodes = np.repeat(table.node_ptr[:-1], table.num_nodes) + found.order
    mine, _ = reorder_nodes(
        table.with_columns(
            node={"node_feat": found.node_feat}, edge={"edge_attr": found.edge_attr}
        ),
        nodes,
    )
    assert mine.filter(found.ok).select(["node_feat", "edge_attr"]).equals(again.table)


def test_a_bond_between_aromatic_atoms_stays_single():
    components = table_from_smiles("c1ccccc1", "c1ccncc1")
    table, bridges, texts = written(components, np.array([0, 2]), [(0, 6)])
    assert check_by_smiles(table, bridges, texts).smiles == ("c1ccc(-c2ccncc2)cc1",)


def test_molecules_that_smiles_cannot_describe_are_rejected_with_the_reason():
    components = table_from_smiles("[H]/N=C/C", "O", "C", "O")
    table, bridges = joined(components, np.array([0, 2, 4]), np.array([(3, 4), (5, 6)]))
    texts = ["[H]N=CC-%80.O-%80", "C-%80.O-%80"]
    smiles = SpliceSmiles(texts, np.arange(7), row_indices(components.node_ptr))
    found = check_by_smiles(table, bridges, smiles)
    assert found.ok.tolist() == [False, True]
    assert found.mismatched.tolist() == [True, False]
    assert found.smiles == ("", "CO")
    assert found.reasons == ("its SMILES has 4 atoms; the graph has 5 atoms", "")


@pytest.mark.parametrize(
    ("texts", "bonds", "code"),
    [
        (("C=CC=C", "C=C"), [(0, 4), (3, 5)], 1),  # closes a ring, which is aromatic
        (("C", "O"), [(0, 1)], 2),  # is a double bond
        (("C=C", "O"), [(0, 2)], 1),  # conjugates what it joins
        (("c1cc[nH]c1", "C", "C"), [(3, 5), (5, 6)], 1),  # takes a written hydrogen
        (("C", "C", "C", "C"), [(0, 1), (0, 2), (0, 3)], 1),  # meet at one atom
        (("CF", "C"), [(1, 2)], 1),  # has no hydrogen to take
        (("C", "C"), [(0, 1)], 12),  # is no bond that takes hydrogens
        (("CC[NH]", "C"), [(2, 3)], 1),  # meets a radical
    ],
)
def test_unusual_bridges_give_the_same_result_as_check_by_graph(texts, bonds, code):
    components = table_from_smiles(*texts)
    table, bridges, smiles = written(components, np.array([0, len(texts)]), bonds, code)
    mine, other = check_by_smiles(table, bridges, smiles), check_by_graph(table, bridges)
    assert mine.reasons == other.reasons
    np.testing.assert_array_equal(mine.node_feat, other.node_feat)
    np.testing.assert_array_equal(mine.edge_attr, other.edge_attr)


def test_mismatched_smiles_are_rejected_and_keep_the_features(capfd):
    components = table_from_smiles("C=C", "CO", "C=C", "CO", "C", "C")
    table, bridges, good = written(components, np.array([0, 2, 4, 6]), [(1, 2), (5, 6), (8, 9)])
    texts = ["C=C%80.C%80(", "C=C%80.C%80(O)(C)(C)C", good.texts[2]]
    found = check_by_smiles(table, bridges, SpliceSmiles(texts, good.rank, good.component))
    assert found.ok.tolist() == [False, False, True]
    assert found.reasons[0] == UNREADABLE
    assert found.reasons[1].startswith("Explicit valence for atom # 2 C, 5")
    np.testing.assert_array_equal(found.node_feat[:8], table.node["node_feat"][:8])
    np.testing.assert_array_equal(found.edge_attr[:12], table.edge["edge_attr"][:12])
    assert capfd.readouterr() == ("", "")


def test_graphs_without_bridges_and_empty_tables_are_accepted():
    for texts in ((), ("C=C", "O")):
        components = table_from_smiles(*texts)
        table, bridges, smiles = written(components, np.arange(len(texts) + 1), [])
        assert check_by_smiles(table, bridges, smiles).ok.all()


def test_bridge_labels_do_not_collide_with_ring_labels():
    text = "C%80CCCC%80"
    bond = (0, 0, 1, 1, 0, 1)
    assert join_smiles(["CC", "O"], [bond]) == "C-%80C.O-%80"
    assert join_smiles([text, "O"], [bond]) == "C-%(100)%80CCCC%80.O-%(100)"
    assert join_smiles(["C%12CCCC%12", "O"], [bond]) == "C-%80%12CCCC%12.O-%80"
    assert len(read_molecules([join_smiles([text, "O"], [bond])]).rows) == 1


def test_many_splices_are_written_as_each_of_them_is():
    fragments = ["CC", "O", "c1cc[nH]c1", "C[NH3+]", "C%80CCCC%80", "N", "CCC"]
    ptr = np.array([0, 2, 4, 6, 7])
    slots = (np.array([0, 0, 2, 4]), np.array([1, 1, 3, 5]))
    spans = ([1, 1, 4, 0], [2, 2, 8, 1], [0, 0, 1, 0], [1, 1, 7, 1])
    found = splice_smiles(fragments, ptr, slots, tuple(map(np.array, spans)))
    assert found == [
        "CC-%80-%81.O-%80-%81",
        "c1cc[n]-%80c1.C[NH2+]-%80",
        "C-%(100)%80CCCC%80.N-%(100)",
        "CCC",
    ]
