"""Molecules that would take RDKit minutes, or that it cannot process, are unreadable texts."""

import time

import pytest

from gsx.errors import MoleculeError
from gsx.stages.chem.limits import CORPUS_LIMITS, raw_limits
from gsx.stages.chem.smiles_reader import parse_smiles, read_molecules
from gsx.stages.prepare.stage import STAGE, PrepareConfig, resolve
from tests.support.user_data import build_splits, open_user_file


def complete_graph(nodes):
    """Return SMILES of dummy atoms, all of which are joined to each other."""
    labels = [[] for _ in range(nodes)]
    number = 9
    for left in range(nodes):
        for right in range(left + 2, nodes):
            number += 1
            for end in (left, right):
                labels[end].append(f"%({number})")
    return "".join(f"*{''.join(own)}" for own in labels)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("C" * 601, "has 601 atoms; the limit is 600 (`--max-atoms` raises it)"),
        ("C1CC1" * 300, "has 900 atoms; the limit is 600"),
        ("C." * 700 + "C", "has 701 atoms; the limit is 600"),
        ("[2H]." * 600 + "[2H]", "has 601 atoms; the limit is 600"),
        ("C(" * 5000 + "C" + ")" * 5000, "has 5,001 atoms; the limit is 600"),
        ("C" * 100_000, "has more than 19,200 characters (`--max-atoms` raises this limit)"),
        (complete_graph(35), "has 561 rings; the limit is 300 (`--max-atoms` raises it)"),
        ("C[N+999]C", "has a charge of more than two digits"),
        ("CC\0C", "contains a control character"),
        ("CC\nC", "contains a control character"),
        ("[CH999999999]", "cannot be read by RDKit: "),
        ("[" * 10_000, "is not a valid SMILES string"),
        ("C%(9999999999999999999)CC", "is not a valid SMILES string"),
    ],
)
def test_unusual_molecules_are_refused_soon(text, reason):
    start = time.monotonic()
    (message,) = read_molecules([text], raw_limits()).refused.values()
    assert reason in message
    assert len(message) < 1200
    with pytest.raises(MoleculeError):
        parse_smiles(text, raw_limits())
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    "text",
    [
        "C" * 600,
        "C1CC1" * 200,
        "C." * 599 + "C",
        "c1ccccc1-" * 99 + "C",
        "C%(99999)CC%(99999)",
        "C" + "/C=C/C" * 150,
        "C[C@@H](F)" * 150,
    ],
)
def test_large_molecules_within_the_limit_are_read_soon(text):
    start = time.monotonic()
    parsed = read_molecules([text], raw_limits())
    assert not parsed.refused
    assert time.monotonic() - start < 5  # far below 1 second on an idle machine


def test_scaffolds_of_large_molecules_of_a_corpus_are_not_computed():
    text = "C1CC1" + "C" * 700
    assert read_molecules([text], CORPUS_LIMITS).scaffolds == ("",)
    assert read_molecules([text], raw_limits(800)).scaffolds == ("C1CC1",)
    assert parse_smiles(text).GetNumAtoms() == 703


def write_rows(folder):
    rows = "".join(f"{'C' * (n + 1)}O,{n % 2}\n" for n in range(40))
    path = folder / "a.csv"
    path.write_text(f"smiles,active\n{rows}{'C' * 700},1\n{'C' * 100_000},0\n")
    return path


def test_molecules_above_the_limit_are_dropped_and_counted(tmp_path):
    path = write_rows(tmp_path)
    (dropped,) = open_user_file(path).dropped
    assert dropped.count == 2
    assert dropped.examples[0].endswith("has 700 atoms; the limit is 600 (`--max-atoms` raises it)")
    assert all(len(example) < 1200 for example in dropped.examples)
    raised = open_user_file(path, max_atoms=700)
    assert raised.dropped[0].count == 1
    assert max(table.num_nodes.max() for table in build_splits(raised).values()) == 700


def test_default_limit_is_not_part_of_the_key(tmp_path):
    path = str(write_rows(tmp_path))
    config = resolve(PrepareConfig(dataset="smiles", file=path, targets=("active",)))
    assert STAGE.added_options["max_atoms"] == config.max_atoms
