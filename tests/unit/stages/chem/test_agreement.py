"""Comparison of SMILES with graphs: formulas, counts, and molecules of difficult kinds."""

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from gsx.stages.chem.agreement import disagreements, formulas
from gsx.stages.chem.explicit_hydrogens import merge_hydrogens
from gsx.stages.chem.features import ATOMIC_NUM, NUM_HS
from gsx.stages.chem.limits import raw_limits
from gsx.stages.chem.smiles_reader import featurize, parse_smiles, read_molecules
from tests.support.difficult_smiles import DIFFICULT, KINDS
from tests.support.molecules import table_from_smiles


def test_formulas_are_those_of_rdkit(hiv_smiles):
    texts = [*DIFFICULT, *hiv_smiles]
    parsed = read_molecules(texts)
    assert not parsed.refused
    expected = [rdMolDescriptors.CalcMolFormula(Chem.MolFromSmiles(text)) for text in texts[:9]]
    assert formulas(parsed.table)[:9] == expected
    assert disagreements(parsed.table, texts) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_source_molecules_agree_with_their_smiles(kind):
    texts = KINDS[kind]
    assert disagreements(table_from_smiles(*texts), texts) == {}


@pytest.mark.parametrize(
    ("text", "other", "reason"),
    [
        ("CCO", "CC", "its SMILES has 2 atoms; the graph has 3 atoms"),
        ("CCC", "C1CC1", "its SMILES has 3 bonds; the graph has 2 bonds"),
        ("CCO", "CCN", "its SMILES has the formula C2H7N; the graph has the formula C2H6O"),
        ("CC[NH3+]", "CCN", "the formula C2H7N; the graph has the formula C2H8N+"),
        ("C=CC", "CCC", "the formula C3H8; the graph has the formula C3H6"),
        ("CCO", "CC(", "its SMILES cannot be read: `CC(` is not a valid SMILES string"),
    ],
)
@pytest.mark.parametrize("sanitize", [True, False])
def test_different_molecules_disagree(text, other, reason, sanitize):
    table = table_from_smiles("C", text, "CC")
    found = disagreements(table, ["", other, "CC"], sanitize=sanitize)
    assert list(found) == [1]
    assert found[1].endswith(reason)


def test_molecules_of_any_size_are_compared():
    text = "C" * 4000
    table = table_from_smiles("C").take(np.zeros(2, dtype=np.int64))
    assert "4,000 atoms; the limit is 3,000" in disagreements(table, ["C", text])[1]
    limits = raw_limits(5000)
    large = featurize([parse_smiles(text, limits)])
    assert disagreements(large, [text]) == {}


def test_hydrogens_that_rdkit_merges_are_found_without_sanitization():
    table = table_from_smiles("[H]/[NH+]=C/C")
    assert table.total_nodes == 4
    found = disagreements(table, ["[H][NH+]=CC"], sanitize=False)
    assert found == {0: "its SMILES has 3 atoms; the graph has 4 atoms"}


def test_hydrogens_are_merged_as_rdkit_does_without_stereo_and_isotopes():
    texts = [text for text in DIFFICULT if "[H]" in text or "2H" in text]
    assert len(texts) > 8
    table = table_from_smiles(*texts)
    merged, kept = merge_hydrogens(table)
    plain = []
    for text in texts:
        molecule = Chem.MolFromSmiles(text)
        Chem.RemoveStereochemistry(molecule)
        for atom in molecule.GetAtoms():
            atom.SetIsotope(0)
        plain.append(Chem.MolToSmiles(Chem.RemoveHs(molecule)))
    assert disagreements(merged, plain) == {}
    assert np.array_equal(table.node["node_feat"][kept][:, ATOMIC_NUM],
                          merged.node["node_feat"][:, ATOMIC_NUM])  # fmt: skip
    dropped = table.total_nodes - merged.total_nodes
    assert dropped == (~kept).sum() > 0
    assert merged.node["node_feat"][:, NUM_HS].sum() == (
        table.node["node_feat"][:, NUM_HS].sum() + dropped
    )


def test_molecules_without_hydrogen_nodes_are_unchanged():
    table = table_from_smiles("CCO", "[H+].[Cl-]", "[H]*")
    merged, kept = merge_hydrogens(table)
    assert merged.equals(table)
    assert kept.all()
