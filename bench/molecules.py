"""Measure how fast spliced molecules are checked: ``GSX_RAW_DATA=DIR python bench/molecules.py``.

Pairs of connected parts of HIV molecules, 25 to 75 atoms, are checked on one core and compared with
the conversion through SMILES by PyG's ``from_smiles``. Times are CPU times, because the machine may
be shared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import rdkit
from lib import harness
from rdkit import Chem
from torch_geometric.data import Data
from torch_geometric.utils import from_smiles

from gsx.ragged import row_indices
from gsx.seeds import rng
from gsx.stages.chem.check_by_graph import check_by_graph, cut_out_molecules
from gsx.stages.chem.fragments import free_valence, round_to_units
from gsx.stages.chem.smiles_reader import read_molecules
from gsx.stages.graphs.splice import add_edges, union
from gsx.stages.graphs.subgraphs import largest_component
from gsx.stages.prepare.benchmarks.hiv import read_rows
from gsx.table import GraphTable

NAME = "molecules"
NUM_SOURCES, NUM_SPLICED, NUM_REFERENCE, ROUNDS = 2_000, 4_000, 500, 3
BARS = {"ratio": 2}

T = TypeVar("T")


def main(arguments: list[str] | None = None) -> None:
    options = harness.argument_parser(__doc__).parse_args(arguments)
    generator = rng(0, "bench", "molecules")
    path = harness.raw_data() / "hiv" / "HIV.csv.gz"
    rows = read_rows(path, path.name).smiles
    source_smiles = [rows[row] for row in generator.choice(len(rows), NUM_SOURCES, replace=False)]
    rates: dict[str, list[float]] = {}

    def measure(name: str, count: int, work: Callable[[], T]) -> T:
        """Record molecules per CPU second and return the result of the work."""
        seconds, value = harness.timed(work, time.process_time)
        rates.setdefault(name, []).append(count / seconds)
        return value

    sources = measure("read", NUM_SOURCES, lambda: read_molecules(source_smiles).table)
    keep = round_to_units(sources, generator.random(sources.total_nodes) < 0.5)
    keep = largest_component(sources, keep)
    fragments = measure("stand_alone", len(sources), lambda: cut_out_molecules(sources, keep))
    pool = fragments.table.filter(fragments.ok & (fragments.table.num_nodes >= 8))
    table, bridges = splice_pairs(pool.select(["node_feat", "edge_attr"]), NUM_SPLICED, generator)
    smiles = check_by_graph(table, bridges).smiles
    accepted = float(np.mean([bool(text) for text in smiles]))
    reference_smiles = [text for text in smiles if text][:NUM_REFERENCE]
    count = len(table)
    for _ in range(ROUNDS):
        measure("check", count, lambda: check_by_graph(table, bridges))
        measure("check_without_smiles", count, lambda: check_by_graph(table, bridges, smiles=False))
        measure("check_thorough", count, lambda: check_by_graph(table, bridges, thorough=True))
        measure(
            "from_smiles",
            len(reference_smiles),
            lambda: [through_smiles(text) for text in reference_smiles],
        )
    medians = {name: round(statistics.median(values)) for name, values in rates.items()}
    result: harness.Result = {
        "command": harness.command_line(NAME, raw_data=True),
        "ratio": round(medians["check"] / medians["from_smiles"], 2),
        "molecules_per_s": medians,
        "mean_atoms": round(float(table.num_nodes.mean()), 1),
        "pieces_that_stand_alone": round(float(fragments.ok.mean()), 4),
        "spliced_that_pass": round(accepted, 4),
        "rdkit": rdkit.__version__,
        **harness.versions(),
    }
    harness.write_result(NAME, result, dry_run=options.dry_run)
    print(harness.as_json(result))
    harness.require(harness.at_least(result, BARS))


def splice_pairs(
    pool: GraphTable, count: int, generator: np.random.Generator
) -> tuple[GraphTable, np.ndarray]:
    """Join pairs at atoms with hydrogens; return those of 25 to 75 atoms and a mask of bridges."""
    components = pool.take(generator.integers(0, len(pool), 2 * count))
    joined, _, first = union(components, np.full(count, 2))
    weight = (free_valence(components) > 0) * generator.random(components.total_nodes)
    order = np.lexsort((-weight, row_indices(components.node_ptr)))
    best = order[components.node_ptr[:-1]] - components.node_ptr[:-1] + first
    single_bond = np.tile(np.array([[1, 0, 0]], np.uint8), (count, 1))
    table, ptr, position = add_edges(
        joined, np.arange(count), best[::2], best[1::2], {"edge_attr": single_bond}
    )
    bridges = np.zeros(table.total_edges, dtype=bool)
    bridges[np.repeat(table.edge_ptr[:-1], np.diff(ptr)) + position] = True
    fits = (table.num_nodes >= 25) & (table.num_nodes <= 75)
    return table.filter(fits), bridges[np.repeat(fits, table.num_edges)]


def through_smiles(text: str) -> Data:
    """Parse a SMILES, write it again and convert it with PyG."""
    return from_smiles(Chem.MolToSmiles(Chem.MolFromSmiles(text)))


if __name__ == "__main__":
    main()
