"""Small valid raw files for every reader."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from tests.fuzz import seeds
from tests.support.raw_files import tu_path_graphs, write_folder, write_zip


def write_raw(folder: Path) -> None:
    """Write one directory per reader."""
    rows = "".join(f"{text},{n % 2},{n}\n" for n, text in enumerate(seeds.SMILES))
    write_folder(folder / "smiles", {"molecules.csv": f"smiles,active,year\n{rows}"})
    write_folder(folder / "nodes", {"nodes.csv": seeds.NODES, "edges.csv": seeds.EDGES})
    graphs = tu_path_graphs(range(3, 19))
    write_folder(folder / "tu", {name.split("/")[1]: text for name, text in graphs.items()})
    write_zip(folder / "tu-zip" / "P.zip", graphs)
    _write_ogb(folder)
    _write_npz(folder / "npz")
    try:
        import torch
    except ImportError:
        return
    from tests.support.pyg_graphs import RINGS

    for name in ("pyg", "good"):
        (folder / name).mkdir()
    torch.save(RINGS[:20], folder / "pyg" / "rings.pt")
    _write_good(folder / "good")


def _ring_tables(count: int = 16) -> dict[str, np.ndarray]:
    at = [np.arange(n + 3) for n in range(count)]
    sizes = np.array([[len(a)] for a in at])
    return {
        "edge": np.concatenate([np.stack([a, (a + 1) % len(a)], 1) for a in at]),
        "num-node-list": sizes,
        "num-edge-list": sizes,
        "node-feat": np.concatenate([np.stack([a % 3, a % 2 + 4], 1) for a in at]),
        "edge-feat": np.concatenate([np.full((len(a), 1), n / 2) for n, a in enumerate(at)]),
        "graph-label": np.array([[n % 2] for n in range(count)]),
    }


def _write_ogb(folder: Path) -> None:
    raw = folder / "ogb" / "ring" / "raw"
    raw.mkdir(parents=True)
    for name, values in _ring_tables().items():
        text = "".join(",".join(map(str, row)) + "\n" for row in values.tolist())
        (raw / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    split = folder / "ogb" / "ring" / "split" / "half"
    split.mkdir(parents=True)
    for name, start, stop in (("train", 0, 8), ("valid", 8, 12), ("test", 12, 16)):
        text = "".join(f"{n}\n" for n in range(start, stop))
        (split / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def _write_npz(folder: Path) -> None:
    tables = _ring_tables()
    raw = folder / "ring" / "raw"
    raw.mkdir(parents=True)
    np.savez(
        raw / "data.npz",
        edge_index=tables["edge"].T.astype(np.int64),
        num_nodes_list=tables["num-node-list"][:, 0].astype(np.int64),
        num_edges_list=tables["num-edge-list"][:, 0].astype(np.int64),
        node_feat=tables["node-feat"].astype(np.int64),
        edge_feat=tables["edge-feat"].astype(np.float32),
    )
    np.savez(raw / "graph-label.npz", graph_label=tables["graph-label"].astype(np.int64))


def _write_good(folder: Path) -> None:
    import torch
    from torch_geometric.data import InMemoryDataset

    from tests.support.pyg_graphs import ring

    processed = folder / "Rings" / "color" / "processed"
    processed.mkdir(parents=True)
    for split, start, stop in (
        ("train", 0, 8),
        ("id_val", 8, 10),
        ("id_test", 10, 12),
        ("val", 12, 15),
        ("test", 15, 18),
    ):
        graphs = [ring(n, env_id=n % 2, domain_id=n // 6) for n in range(start, stop)]
        data, slices = InMemoryDataset.collate(graphs)
        torch.save((data, slices), processed / f"covariate_{split}.pt")
