import numpy as np
import pytest

from gsx.errors import MoleculeError
from gsx.stages.chem.features import ATOM_FEATURES, BOND_FEATURES
from gsx.stages.chem.fragments import scaffold_atoms
from gsx.stages.chem.smiles_reader import (
    featurize,
    molecule_properties,
    parse_smiles,
    read_molecules,
)


def test_ethanol_has_the_features_of_its_atoms_and_bonds():
    table = featurize([parse_smiles("CCO")]).validate()
    assert table.node["node_feat"].tolist() == [
        [6, 0, 4, 5, 3, 0, 4, 0, 0],
        [6, 0, 4, 5, 2, 0, 4, 0, 0],
        [8, 0, 2, 5, 1, 0, 4, 0, 0],
    ]
    assert table.edge["edge_src"].tolist() == [0, 1, 1, 2]
    assert table.edge["edge_dst"].tolist() == [1, 0, 2, 1]
    assert table.edge["edge_attr"].tolist() == [[1, 0, 0]] * 4
    assert table.node["node_feat"].dtype == table.edge["edge_attr"].dtype == np.uint8


def test_features_are_those_of_pyg():
    from torch_geometric.utils import smiles

    texts = ["C[C@H](N)C(=O)O", "F/C=C/F", "c1cc[nH]c1", "FS(F)(F)(F)(F)F", "[Na+].[O-]N=O",
             "[H][H]", "C[N+](C)(C)C", "[CH3]", "C", "Cl[Pt](Cl)(N)N"]  # fmt: skip
    table = featurize([parse_smiles(text) for text in texts])
    for row, text in enumerate(texts):
        one, want = table.slice(row, row + 1), smiles.from_smiles(text)
        assert one.node["node_feat"].tolist() == want.x.tolist(), text
        assert one.edge["edge_src"].tolist() == want.edge_index[0].tolist()
        assert one.edge["edge_dst"].tolist() == want.edge_index[1].tolist()
        assert one.edge["edge_attr"].tolist() == want.edge_attr.tolist()
    assert [list(words) for words in ATOM_FEATURES.values()] == [
        list(map(str, words)) for words in smiles.x_map.values()
    ]
    assert {name: list(words) for name, words in BOND_FEATURES.items()} == {
        name: list(map(str, words)) for name, words in smiles.e_map.items()
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the SMILES is empty"),
        ("  ", "the SMILES is empty"),
        ("C(C", "`C(C` is not a valid SMILES string"),
        ("hello", "`hello` is not a valid SMILES string"),
        (
            "CN(C)(C)C",
            "`CN(C)(C)C` cannot be sanitized by RDKit: Explicit valence for atom # 1 N, 4, is "
            "greater than permitted",
        ),
        (
            "c1cccc1",
            "`c1cccc1` cannot be sanitized by RDKit: Can't kekulize mol.  "
            "Unkekulized atoms: 0 1 2 3 4",
        ),
    ],
)
def test_invalid_smiles_are_rejected_with_a_reason_and_print_nothing(text, message, capfd):
    with pytest.raises(MoleculeError) as error:
        parse_smiles(text)
    assert str(error.value) == message
    assert capfd.readouterr() == ("", "")


def test_unreadable_smiles_are_listed():
    found = read_molecules(["CCO", "C(C", "c1ccccc1C", "CN(C)(C)C", "[O-7]"])
    assert found.rows.tolist() == [0, 2]
    assert found.table.num_nodes.tolist() == [3, 7]
    assert found.scaffolds == ("", "c1ccccc1")
    assert {row: reason.split(":")[0] for row, reason in found.refused.items()} == {
        1: "`C(C` is not a valid SMILES string",
        3: "`CN(C)(C)C` cannot be sanitized by RDKit",
        4: "`[O-7]` has an atom or a bond that the features cannot encode",
    }


def test_no_smiles_give_an_empty_table():
    found = read_molecules([])
    assert (len(found.table), found.scaffolds, found.refused) == (0, (), {})


def test_an_unsupported_molecule_is_rejected_by_index():
    with pytest.raises(MoleculeError) as error:
        featurize([parse_smiles("C"), parse_smiles("[O-7]")])
    assert str(error.value) == ("molecule 1 has an atom or a bond that the features cannot encode")


def test_properties_of_aspirin():
    found = molecule_properties(["CC(=O)Oc1ccccc1C(=O)O", "C"])
    assert found.heavy_atoms.tolist() == [13, 1]
    assert found.weight.round(2).tolist() == [180.16, 16.04]
    assert found.log_p.round(2).tolist() == [1.31, 0.64]
    assert found.rings.tolist() == [1, 0]


def test_the_scaffold_of_an_atom_mask_is_murckos():
    texts = [
        "CCc1ccc(CC2CCNCC2)cc1O", "CCCC", "O=C1CCCCC1C", "N#Cc1ccccc1", "C1CC1CCCC=C",
        "CC(=O)Nc1ccccc1",
        "O=S(=O)(c1ccccc1)N1CCOCC1", "c1ccc2ccccc2c1CCC(=O)c1ccncc1",
    ]  # fmt: skip
    found = read_molecules(texts)
    mask = scaffold_atoms(found.table)
    counts = np.add.reduceat(mask.astype(int), found.table.node_ptr[:-1]).tolist()
    sizes = [parse_smiles(text).GetNumAtoms() if text else 0 for text in found.scaffolds]
    assert counts == sizes
