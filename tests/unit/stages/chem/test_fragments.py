import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsx.ragged import pointers
from gsx.stages.chem.fragments import (
    acyclic_edges,
    cut_bonds,
    cuttable_bonds,
    free_valence,
    rigid_units,
    round_to_units,
)
from gsx.table import GraphTable
from tests.support.molecules import table_from_smiles


def bonds(table, mask):
    src, dst = table.edge["edge_src"], table.edge["edge_dst"]
    return [(int(a), int(b)) for a, b in zip(src[mask], dst[mask], strict=True) if a < b]


def plain(graphs):
    edges = [sorted([*graph.edges, *[(b, a) for a, b in graph.edges]]) for graph in graphs]
    flat = np.array([pair for each in edges for pair in each], np.int32).reshape(-1, 2)
    return GraphTable(
        node_ptr=pointers([len(graph) for graph in graphs]),
        edge_ptr=pointers([len(each) for each in edges]),
        edge={"edge_src": flat[:, 0], "edge_dst": flat[:, 1]},
    )


@given(st.lists(st.tuples(st.integers(0, 14), st.floats(0, 1.6), st.integers(0, 99)), max_size=5))
def test_acyclic_edges_are_the_bridges_that_networkx_finds(shapes):
    graphs = [nx.gnm_random_graph(n, int(n * share), seed=seed) for n, share, seed in shapes]
    table = plain(graphs)
    want = []
    for row, graph in enumerate(graphs):
        found = {frozenset(pair) for pair in nx.bridges(graph)}
        one = table.slice(row, row + 1)
        ends = zip(one.edge["edge_src"].tolist(), one.edge["edge_dst"].tolist(), strict=True)
        want += [frozenset(pair) in found for pair in ends]
    assert acyclic_edges(table).tolist() == want


@pytest.mark.parametrize(
    ("text", "cuts"),
    [
        ("CCO", [(0, 1), (1, 2)]),
        ("C=CC", [(1, 2)]),
        ("C1CC1C", [(2, 3)]),
        ("c1ccccc1-c1ccccc1", [(5, 6)]),
        ("C1CC2CCC1CC2", []),
        ("CC#N", [(0, 1)]),
        ("[H][H]", []),
        ("[Na+].[Cl-]", []),
        ("C", []),
    ],
)
def test_single_bonds_outside_rings_may_be_cut(text, cuts):
    table = table_from_smiles(text)
    assert bonds(table, cuttable_bonds(table)) == cuts


def test_units_are_rings_multiple_bonds_and_single_atoms():
    table = table_from_smiles("Cc1ccccc1C=CO", "CC#N")
    unit = rigid_units(table)
    assert [np.flatnonzero(unit == number).tolist() for number in np.unique(unit)] == [
        [0], [1, 2, 3, 4, 5, 6], [7, 8], [9], [10], [11, 12],
    ]  # fmt: skip


def test_a_mask_is_rounded_up_to_whole_units():
    table = table_from_smiles("Cc1ccccc1C=CO", "CC#N")
    keep = np.zeros(table.total_nodes, dtype=bool)
    keep[[3, 8]] = True
    assert np.flatnonzero(round_to_units(table, keep)).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert not round_to_units(table, np.zeros_like(keep)).any()


def test_hydrogens_replace_cut_bonds():
    table = table_from_smiles("CC(=O)N", "c1ccccc1")
    keep = np.array([1, 1, 0, 0, 1, 0, 0, 0, 0, 0], dtype=bool)
    hydrogens, clean = cut_bonds(table, keep)
    assert hydrogens.tolist()[:5] == [0, 3, 0, 0, 0]
    assert clean.tolist() == [True, False]


def test_the_free_valence_of_an_atom_is_its_hydrogens():
    assert free_valence(table_from_smiles("Cc1cc[nH]c1", "[NH4+]")).tolist() == [
        3,
        0,
        1,
        1,
        1,
        1,
        4,
    ]
