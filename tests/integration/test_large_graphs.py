"""Graphs of the size of the largest protein of DD are spliced in bounded memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import json, sys
import numpy as np
from gsx.stages.prepare.synthetic import motif
from gsx.stages.graphs.splice import add_edges
from gsx.storage.artifacts.run_record import peak_memory_mib
from gsx.table import GraphTable, concat
from tests.conftest import motif_split
from tests.support.run_stages import run_stage, write_small_corpus

NODES = 5748

def with_giants(table):
    \"\"\"Replace the first two graphs by paths of 5748 nodes with some long edges.\"\"\"
    giants = []
    for row in range(2):
        one = table.slice(row, row + 1)
        graph = np.zeros(2 * NODES - 1, dtype=np.int64)
        u = np.concatenate([np.arange(NODES - 1), np.arange(NODES)])
        v = np.concatenate([np.arange(1, NODES), (np.arange(NODES) * 7 + 3) % NODES])
        loop = u == v
        node = {name: np.repeat(values[:1], NODES, axis=0) for name, values in one.node.items()}
        empty = {name: values[:0] for name, values in one.edge.items()}
        bare = GraphTable(np.array([0, NODES]), np.array([0, 0]), one.graph, node, empty)
        keep = ~loop
        giants.append(add_edges(bare, graph[keep], u[keep], v[keep], {})[0])
    return concat([*giants, table.slice(2, len(table))])

folder = sys.argv[1]
corpus = write_small_corpus(folder, with_giants)
inputs = {"prepare": corpus}
inputs["bridge"] = run_stage(folder, "bridge", {"epochs": 1}, inputs)
options = {"options": "001", "f": [2, 3], "partners": "same-component", "count": 60}
spliced = run_stage(folder, "generate", options, inputs)
quality = spliced.manifest.summary["quality"]["option_3"]
print(json.dumps({"max_nodes": quality["max_nodes"], "peak_mib": peak_memory_mib()}))
"""


@pytest.mark.slow
def test_large_graphs_are_spliced_in_bounded_memory(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)], env=env, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert measured["max_nodes"] >= 2 * 5748
    assert measured["peak_mib"] < 3000
