"""Measure how fast spliced molecules are checked: ``GSX_RAW_DATA=DIR python bench/molecules.py``.

Pairs of pieces of HIV molecules, 25 to 75 atoms, on one core, beside the way through SMILES with
PyG's ``from_smiles``. Seconds are of processor time: the machine may be shared.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from pathlib import Path

import numpy as np
import rdkit
from rdkit import Chem
from torch_geometric.utils import from_smiles

from gsx.ragged import rows_of
from gsx.seeds import rng
from gsx.stages.datasets.hiv import read_rows
from gsx.stages.kernels.chem import read_molecules
from gsx.stages.kernels.fragments import free_valence, round_to_units
from gsx.stages.kernels.rebuild import check_spliced, stand_alone
from gsx.stages.kernels.splice import add_edges, union
from gsx.stages.kernels.subgraphs import largest_component

COMMAND = "GSX_RAW_DATA=DIR python bench/molecules.py"
RESULT = Path(__file__).parent / "results" / "molecules.json"
NUM_SOURCES, NUM_SPLICED, NUM_REFERENCE, REPEATS, BAR = 2_000, 4_000, 500, 3, 2


def main() -> None:
    generator = rng(0, "bench", "molecules")
    path = Path(os.environ["GSX_RAW_DATA"]) / "hiv" / "HIV.csv.gz"
    rows = read_rows(path, path.name).smiles
    texts = [rows[row] for row in generator.choice(len(rows), NUM_SOURCES, replace=False)]
    rates: dict[str, list[float]] = {}
    sources = clocked(rates, "read", NUM_SOURCES, lambda: read_molecules(texts).table)
    keep = round_to_units(sources, generator.random(sources.total_nodes) < 0.5)
    keep = largest_component(sources, keep)
    pieces = clocked(rates, "stand_alone", len(sources), lambda: stand_alone(sources, keep))
    pool = pieces.table.filter(pieces.ok & (pieces.table.num_nodes >= 8))
    table, bridges = spliced(pool.select(["node_feat", "edge_attr"]), NUM_SPLICED, generator)
    smiles = check_spliced(table, bridges).smiles
    ok = float(np.mean([bool(text) for text in smiles]))
    few = [text for text in smiles if text][:NUM_REFERENCE]
    for _ in range(REPEATS):
        clocked(rates, "check", len(table), lambda: check_spliced(table, bridges))
        clocked(
            rates, "check_without_smiles", len(table),
            lambda: check_spliced(table, bridges, smiles=False),
        )  # fmt: skip
        clocked(
            rates, "check_thorough", len(table),
            lambda: check_spliced(table, bridges, thorough=True),
        )  # fmt: skip
        clocked(rates, "from_smiles", len(few), lambda: [through_smiles(text) for text in few])
    medians = {name: round(statistics.median(values)) for name, values in rates.items()}
    result = {
        "command": COMMAND,
        "ratio": round(medians["check"] / medians["from_smiles"], 2),
        "molecules_per_s": medians,
        "mean_atoms": round(float(table.num_nodes.mean()), 1),
        "pieces_that_stand_alone": round(float(pieces.ok.mean()), 4),
        "spliced_that_pass": round(ok, 4),
        "rdkit": rdkit.__version__,
        "python": platform.python_version(),
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    if result["ratio"] < BAR:
        raise SystemExit(f"below the bar of {BAR}")


def clocked(rates, name, count, work):
    """Do the work, note how many molecules it did in a second, and return what it gives."""
    start = time.process_time()
    result = work()
    rates.setdefault(name, []).append(count / (time.process_time() - start))
    return result


def spliced(pool, count, generator):
    """Join pairs of pieces at atoms with hydrogens; return those of 25 to 75 atoms, and bridges."""
    components = pool.take(generator.integers(0, len(pool), 2 * count))
    joined, _, first = union(components, np.full(count, 2))
    weight = (free_valence(components) > 0) * generator.random(components.total_nodes)
    order = np.lexsort((-weight, rows_of(components.node_ptr)))
    best = order[components.node_ptr[:-1]] - components.node_ptr[:-1] + first
    bond = np.tile(np.array([[1, 0, 0]], np.uint8), (count, 1))
    table, ptr, position = add_edges(
        joined, np.arange(count), best[::2], best[1::2], {"edge_attr": bond}
    )
    bridges = np.zeros(table.total_edges, dtype=bool)
    bridges[np.repeat(table.edge_ptr[:-1], np.diff(ptr)) + position] = True
    fits = (table.num_nodes >= 25) & (table.num_nodes <= 75)
    return table.filter(fits), bridges[np.repeat(fits, table.num_edges)]


def through_smiles(text):
    """Read a molecule, write it again and make PyG data of it."""
    return from_smiles(Chem.MolToSmiles(Chem.MolFromSmiles(text)))


if __name__ == "__main__":
    main()
