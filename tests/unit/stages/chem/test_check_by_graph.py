"""Cut-out and spliced molecules, compared with the molecules that RDKit reads."""

import numpy as np
import pytest
from rdkit import Chem

from gsx.ragged import ranges, row_indices
from gsx.seeds import rng
from gsx.stages.chem.check_by_graph import check_by_graph, cut_out_molecules
from gsx.stages.chem.fragments import (
    cuttable_bonds,
    free_valence,
    rigid_units,
    round_to_units,
)
from gsx.stages.chem.smiles_reader import parse_smiles, read_molecules
from gsx.stages.graphs.splice import add_edges, union
from tests.support.mcs_oracle import left_over, left_overs
from tests.support.molecules import FEW_SMILES, cut_sides, table_from_smiles


@pytest.fixture(scope="module", params=["few", "hiv"])
def molecules(request):
    texts = FEW_SMILES if request.param == "few" else request.getfixturevalue("hiv_smiles")[:300]
    return read_molecules(texts).table


@pytest.fixture(scope="module")
def fragments(molecules):
    """Either side of every cut, standing alone."""
    return cut_out_molecules(*cut_sides(molecules))


@pytest.fixture(scope="module")
def pool(fragments):
    return fragments.table.filter(fragments.ok).select(["node_feat", "edge_attr"])


def spliced(pool, count, generator):
    """Join pairs of fragments by single bonds between atoms with hydrogens; also return bridges."""
    components = pool.take(generator.integers(0, len(pool), 2 * count))
    joined, _, first = union(components, np.full(count, 2))
    weight = (free_valence(components) > 0) * generator.random(components.total_nodes)
    order = np.lexsort((-weight, row_indices(components.node_ptr)))
    best = order[components.node_ptr[:-1]] - components.node_ptr[:-1] + first
    bond = np.tile(np.array([[1, 0, 0]], np.uint8), (count, 1))
    table, ptr, position = add_edges(
        joined, np.arange(count), best[::2], best[1::2], {"edge_attr": bond}
    )
    bridges = np.zeros(table.total_edges, dtype=bool)
    bridges[np.repeat(table.edge_ptr[:-1], np.diff(ptr)) + position] = True
    return table, bridges


def multiset(table):
    """Return the features of every graph, independent of the order of its atoms."""
    rows = [table.slice(row, row + 1) for row in range(len(table))]
    return [
        (sorted(map(tuple, row.node["node_feat"].tolist())),
         sorted(map(tuple, row.edge["edge_attr"].tolist())))
        for row in rows
    ]  # fmt: skip


def test_a_complete_molecule_is_unchanged(molecules):
    fragments = cut_out_molecules(molecules, np.ones(molecules.total_nodes, dtype=bool))
    assert fragments.ok.all()
    np.testing.assert_array_equal(fragments.table.node["node_feat"], molecules.node["node_feat"])
    np.testing.assert_array_equal(fragments.table.edge["edge_attr"], molecules.edge["edge_attr"])


def test_either_side_of_every_cut_is_a_molecule_with_the_features_rdkit_gives_it(fragments):
    assert fragments.ok.all()
    assert len(fragments.ok) > 40
    assert multiset(fragments.table) == multiset(table_from_smiles(*fragments.smiles))


def test_free_valence_equals_rdkit_hydrogens(fragments):
    free = free_valence(fragments.table)
    for row, text in enumerate(fragments.smiles):
        counted = [atom.GetTotalNumHs() for atom in parse_smiles(text).GetAtoms()]
        mine = free[fragments.table.node_ptr[row] : fragments.table.node_ptr[row + 1]]
        assert sorted(mine.tolist()) == sorted(counted)


def test_splicing_at_free_valences_gives_molecules_with_the_features_rdkit_gives_them(pool):
    table, bridges = spliced(pool, 300, rng(0, "tests", "splice"))
    checked = check_by_graph(table, bridges)
    assert checked.ok.mean() >= 0.99
    again = table.with_columns(
        node={"node_feat": checked.node_feat}, edge={"edge_attr": checked.edge_attr}
    ).filter(checked.ok)
    smiles = [text for text in checked.smiles if text]
    assert multiset(again) == multiset(table_from_smiles(*smiles))
    assert [Chem.CanonSmiles(text) for text in smiles] == smiles


def test_local_checks_equal_thorough_checks(pool):
    table, bridges = spliced(pool, 300, rng(1, "tests", "splice"))
    quick, thorough = check_by_graph(table, bridges), check_by_graph(table, bridges, thorough=True)
    assert quick.reasons == thorough.reasons
    assert quick.smiles == thorough.smiles
    np.testing.assert_array_equal(quick.node_feat, thorough.node_feat)
    np.testing.assert_array_equal(quick.edge_attr, thorough.edge_attr)
    silent = check_by_graph(table, bridges, smiles=False)
    assert set(silent.smiles) == {""}
    np.testing.assert_array_equal(silent.node_feat, quick.node_feat)


def joined(texts, bonds, code=1):
    """Splice whole molecules by bonds between (molecule, atom) pairs."""
    table, _, first = union(table_from_smiles(*texts), np.array([len(texts)]))
    ends = [[first[molecule] + atom for molecule, atom in bond] for bond in bonds]
    attributes = np.tile(np.array([[code, 0, 0]], np.uint8), (len(ends), 1))
    u, v = np.array(ends).T
    table, _, position = add_edges(
        table, np.zeros(len(ends), np.int64), u, v, {"edge_attr": attributes}
    )
    bridges = np.zeros(table.total_edges, dtype=bool)
    bridges[position] = True
    return table, bridges


@pytest.mark.parametrize(
    ("texts", "bonds", "code", "smiles"),
    [
        (("C", "C"), [((0, 0), (1, 0))], 1, "CC"),
        (("c1cc[nH]c1", "C"), [((0, 3), (1, 0))], 1, "Cn1cccc1"),
        (("C", "O"), [((0, 0), (1, 0))], 2, "C=O"),
        (("C", "N"), [((0, 0), (1, 0))], 3, "C#N"),
        (("C=C", "C=C"), [((0, 0), (1, 0)), ((0, 1), (1, 1))], 1, "C1=CC=C1"),
        (("C=CC=C", "C=C"), [((0, 0), (1, 0)), ((0, 3), (1, 1))], 1, "c1ccccc1"),
        (("[NH4+]", "C"), [((0, 0), (1, 0))], 1, "C[NH3+]"),
    ],
)
def test_bridges_take_hydrogens_and_may_close_rings(texts, bonds, code, smiles):
    table, bridges = joined(texts, bonds, code)
    checked = check_by_graph(table, bridges)
    assert (checked.reasons, checked.smiles) == (("",), (smiles,))
    again = table.with_columns(
        node={"node_feat": checked.node_feat}, edge={"edge_attr": checked.edge_attr}
    )
    assert multiset(again) == multiset(table_from_smiles(smiles))


def test_a_new_bond_can_conjugate_what_it_joins():
    table, bridges = joined(("C=C", "O"), [((0, 0), (1, 0))])
    checked = check_by_graph(table, bridges)
    assert checked.smiles == ("C=CO",)
    assert checked.node_feat[:, 6].tolist() == [3, 3, 3]  # SP2, the oxygen as well
    assert checked.edge_attr[:, 2].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("texts", "bonds", "code", "reason"),
    [
        (("CF", "C"), [((0, 1), (1, 0))], 1, "atom 1 has 0 hydrogens for bridges of order 1"),
        (("C", "O"), [((0, 0), (1, 0))], 3, "atom 1 has 2 hydrogens for bridges of order 3"),
        (("C", "C"), [((0, 0), (1, 0))], 12, "a bridge is not a single, double or triple bond"),
    ],
)
def test_a_bridge_without_hydrogens_is_rejected_and_keeps_the_features(texts, bonds, code, reason):
    table, bridges = joined(texts, bonds, code)
    checked = check_by_graph(table, bridges)
    assert (checked.ok.tolist(), checked.reasons, checked.smiles) == ([False], (reason,), ("",))
    np.testing.assert_array_equal(checked.node_feat, table.node["node_feat"])
    np.testing.assert_array_equal(checked.edge_attr, table.edge["edge_attr"])


def test_sanitization_errors_have_a_reason_and_print_nothing(capfd):
    table = table_from_smiles("CO")
    feat = table.node["node_feat"].copy()
    feat[1, 4] = 3
    broken = table.with_columns(node={"node_feat": feat})
    checked = check_by_graph(broken, np.zeros(2, dtype=bool))
    assert checked.reasons == ("Explicit valence for atom # 1 O, 4, is greater than permitted",)
    assert capfd.readouterr() == ("", "")


def test_an_invalid_fragment_has_a_reason():
    table = table_from_smiles("c1ccccc1", "CC", "C=CO")
    keep = np.array([1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0], dtype=bool)
    fragments = cut_out_molecules(table, keep)
    assert fragments.ok.tolist() == [False, False, True]
    assert fragments.reasons == (
        "a cut bond is not a single, double or triple bond",
        "no atom is kept",
        "",
    )
    assert fragments.smiles == ("", "", "C")
    assert fragments.table.node["node_feat"][-1].tolist() == [6, 0, 4, 5, 4, 0, 4, 0, 0]
    assert fragments.numbers.tolist() == [0, 1, 2, 0]


def test_empty_tables_are_accepted():
    for table in (
        table_from_smiles(),
        table_from_smiles("CC").filter([False]),
        table_from_smiles("C", "O"),
    ):
        whole = np.ones(table.total_nodes, dtype=bool)
        fragments = cut_out_molecules(table, whole)
        assert fragments.ok.tolist() == [True] * len(table)
        none = np.zeros(table.total_edges, dtype=bool)
        assert check_by_graph(table, none).ok.tolist() == [True] * len(table)
        assert not cuttable_bonds(table).any()
        assert len(rigid_units(table)) == len(round_to_units(table, whole)) == table.total_nodes


@pytest.mark.parametrize(
    ("large", "small", "rest"),
    [
        ("CC(=O)Nc1ccccc1", "c1ccccc1", "CC(N)=O"),
        ("Clc1ccccc1CCN", "Clc1ccccc1", "CCN"),
        ("OCC1CCNCC1", "C1CCNCC1", "CO"),
        ("CCS(=O)(=O)c1ccncc1", "c1ccncc1", "CC[SH](=O)=O"),
    ],
)
def test_a_fragment_is_the_difference_of_two_molecules(large, small, rest):
    fragments = cut_out_molecules(table_from_smiles(large), left_over(large, small))
    assert fragments.smiles == (rest,)


@pytest.mark.parametrize("source", ["few", "hiv"])
def test_a_mask_subtracts_what_the_largest_common_part_subtracts(source, request):
    """Cut off either side of bonds; RDKit, given the two molecules alone, leaves the other side."""
    texts = FEW_SMILES if source == "few" else request.getfixturevalue("hiv_smiles")[:60]
    table = read_molecules(texts).table
    copies, keep = cut_sides(table)
    rows = rng(0, "tests", "mcs").permutation(len(copies))[:40]
    keep = keep[ranges(copies.node_ptr[rows], copies.num_nodes[rows])]
    copies = copies.take(rows)
    cut, rest = cut_out_molecules(copies, keep), cut_out_molecules(copies, ~keep)
    whole = cut_out_molecules(copies, np.ones(copies.total_nodes, dtype=bool))
    certain = 0
    for row, text in enumerate(whole.smiles):
        places = left_overs(text, cut.smiles[row])
        assert {int(left.sum()) for left in places} == {int(rest.table.num_nodes[row])}
        if len(places) == 1:
            certain += 1
            assert cut_out_molecules(table_from_smiles(text), places[0]).smiles == (
                rest.smiles[row],
            )
    assert certain >= 8


@pytest.mark.parametrize(
    ("texts", "bonds"),
    [
        (("c1ccccc1C", "C1CCNCC1"), [((0, 6), (1, 3))]),
        (("c1ccc2[nH]ccc2c1", "OC(=O)C", "C1CC1"), [((0, 4), (1, 3)), ((1, 0), (2, 0))]),
        (("N#CC", "c1ccsc1", "CS(N)(=O)=O"), [((0, 2), (1, 0)), ((1, 2), (2, 2))]),
    ],
)
def test_a_splice_without_its_first_component_is_the_splice_of_the_others(texts, bonds):
    whole = check_by_graph(*joined(texts, bonds)).smiles[0]
    others = [tuple((number - 1, atom) for number, atom in bond) for bond in bonds[1:]]
    expected = (
        check_by_graph(*joined(texts[1:], others)).smiles[0]
        if others
        else Chem.CanonSmiles(texts[1])
    )
    assert cut_out_molecules(table_from_smiles(whole), left_over(whole, texts[0])).smiles == (
        expected,
    )
