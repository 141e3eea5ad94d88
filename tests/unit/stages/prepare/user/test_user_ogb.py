"""OGB datasets from users: graphs, splits and error messages."""

import contextlib
import gzip

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gsx.errors import StageError, UsageError
from tests.support.pyg_graphs import NUM_RINGS, RINGS, save_pt
from tests.support.user_data import build_splits, equal_graphs, open_user_file


def write_ogb(folder, **replaced):
    """Write the rings in the layout of OGB, every edge once, and return the folder."""
    at = [np.arange(graph.num_nodes) for graph in RINGS]
    tables = {
        "raw/edge": np.concatenate([np.stack([a, (a + 1) % len(a)], 1) for a in at]),
        "raw/num-node-list": np.array([[len(a)] for a in at]),
        "raw/num-edge-list": np.array([[len(a)] for a in at]),
        "raw/node-feat": np.concatenate([np.stack([a % 3, a % 2 + 4], 1) for a in at]),
        "raw/edge-feat": np.concatenate([np.full((len(a), 1), n / 2) for n, a in enumerate(at)]),
        "raw/graph-label": np.array([[n % 2] for n in range(NUM_RINGS)]),
        "split/half/train": np.arange(0, 20)[:, None],
        "split/half/valid": np.arange(20, 30)[:, None],
        "split/half/test": np.arange(30, 39)[:, None],
        **replaced,
    }
    text = "\n".join(f"{n % 2},C{n},{'C' * (n + 1)},{'pqrs'[n // 10]}" for n in range(NUM_RINGS))
    for name, value in {**tables, "mapping/mol": "ACT,mol_id,smiles,assay\n" + text}.items():
        if value is None:
            continue
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = value if isinstance(value, str) else "".join(
            ",".join("" if cell != cell else str(cell) for cell in row) + "\n"
            for row in value.tolist()
        )  # fmt: skip
        path.write_bytes(gzip.compress(lines.encode()))
    return folder


def test_ogb_folder_and_pyg_file_give_equal_graphs(tmp_path):
    train_only = {"ratios": (1.0, 0.0, 0.0)}
    dataset = open_user_file(write_ogb(tmp_path / "ogbg_ring"), "ogb", **train_only)
    other = open_user_file(save_pt(tmp_path, RINGS), "pyg", **train_only)
    assert equal_graphs(dataset, other)
    assert not any("direction" in warning for warning in dataset.warnings)
    assert dataset.info.outputs == ("label",)
    assert dataset.info.column("node_feat").features == other.info.column("node_feat").features


def test_npz_files_and_tables_give_equal_graphs(tmp_path):
    plain = write_ogb(tmp_path / "ogbg_ring")
    raw = {name: np.loadtxt(plain / f"raw/{name}.csv.gz", delimiter=",", ndmin=2)
           for name in ("edge", "num-node-list", "num-edge-list", "node-feat", "edge-feat",
                        "graph-label")}  # fmt: skip
    (tmp_path / "other" / "raw").mkdir(parents=True)
    np.savez(
        tmp_path / "other/raw/data.npz",
        edge_index=raw["edge"].T.astype(np.int64),
        num_nodes_list=raw["num-node-list"][:, 0].astype(np.int64),
        num_edges_list=raw["num-edge-list"][:, 0].astype(np.int64),
        node_feat=raw["node-feat"].astype(np.int64),
        edge_feat=raw["edge-feat"].astype(np.float32),
    )
    np.savez(tmp_path / "other/raw/graph-label.npz", graph_label=raw["graph-label"])
    (tmp_path / "other/split/half").mkdir(parents=True)
    torch.save({"train": np.arange(20), "valid": torch.arange(20, 30), "test": np.arange(30, 39)},
               tmp_path / "other/split/half/split_dict.pt")  # fmt: skip
    one, two = (open_user_file(path, "ogb", rule="column") for path in (plain, tmp_path / "other"))
    assert equal_graphs(one, two)
    assert list(one.split_sizes.values()) == [12, 4, 4, 10, 9]
    assert [dropped.count for dropped in one.dropped] == [1]


def test_tasks_missing_values_and_domains_are_read(tmp_path):
    labels = np.array([[n % 2, np.nan if n % 3 else n % 2] for n in range(NUM_RINGS)])
    path = write_ogb(tmp_path / "mine", **{"raw/graph-label": labels, "mapping/mol": None})
    text = "A,B,mol_id,smiles,assay\n" + "".join(
        f"{n % 2},,C{n},C1CC1{'C' * n},{'pqrs'[n // 10]}\n" for n in range(NUM_RINGS)
    )
    (path / "mapping/mol.csv.gz").write_bytes(gzip.compress(text.encode()))
    dataset = open_user_file(path, "ogb", domain="column:assay", ratios=(0.5, 0.25, 0.1))
    assert (dataset.info.task, dataset.info.outputs) == ("multitask", ("task_0", "task_1"))
    train = build_splits(dataset)["train"].graph
    assert (np.isnan(train["y"][:, 1]) == (train["graph_id"] % 3 > 0)).all()
    assert dataset.info.domains == ("assay p", "assay q", "assay r", "assay s")
    few = open_user_file(path, "ogb", targets=("task_0",), domain="scaffold", environments=1)
    assert (few.info.task, few.info.outputs) == ("binary", ("task_0",))


@pytest.mark.parametrize(
    ("more", "options", "message"),
    [
        ({"raw/edge": None}, {},
         "raw/edge.csv.gz. Pass the unpacked folder of an OGB graph-property"),
        ({"raw/graph-label": None}, {}, "has no file raw/graph-label.csv.gz."),
        ({"raw/node-label": "1\n"}, {}, "is a node-property dataset. Export its nodes and edges"),
        ({"raw/triplet-type-list": "a,b,c"}, {}, "has several node types"),
        ({}, {"rule": "column", "split_column": "most"}, "mine has these splits: half. Select one"),
        ({"split/half/valid": None}, {"rule": "column"}, "no file split/half/valid.csv.gz."),
        ({"raw/num-node-list": "3\n"}, {}, "mine: num-node-list has 1 graphs, num-edge-list has "
         "40. Use files of the same dataset."),
        ({"raw/num-node-list": "a\n"}, {},
         "raw/num-node-list.csv.gz must contain only numbers: could not convert string 'a'"),
        ({"raw/num-edge-list": "-1\n" * NUM_RINGS}, {},
         "mine: num-edge-list must contain counts (found -1 to -1)."),
        ({"raw/num-edge-list": "1\n" * NUM_RINGS}, {},
         "mine: edge has 900 lines, but num-edge-list adds "
         "up to 40. Use files of the same dataset."),
        ({"raw/edge": "0,1,2\n" * 900}, {},
         "mine: edge must contain two integers per line."),
        ({"raw/edge": "0,99\n" * 900}, {}, "mine: edge: graph 0 has an edge between nodes [0, 99], "
         "but only 3 nodes. Node ids of a graph start at 0."),
        ({"raw/node-feat": "1\n2\n"}, {}, "mine: node-feat has 2 lines, but there are 900 nodes."),
        ({"raw/node-feat": "inf\n" * 900}, {}, "mine: node-feat, row 0: a feature is not finite "
         "(900 rows in total)."),
        ({"raw/graph-label": "yes\n" * NUM_RINGS}, {}, "raw/graph-label.csv.gz must contain only"),
        ({"raw/graph-label": "\n" * NUM_RINGS}, {}, "there are 40 graphs."),
        ({}, {"targets": ("b",)}, "mine has no task `b`. Its tasks: label."),
        ({}, {"domain": "column:asay"}, "mapping/mol.csv.gz has no column `asay`; its header is"),
        ({"split/half/test": "7\n"}, {"rule": "column"},
         "mine: split/half/test.csv.gz assigns graph 7 to a split a second time."),
        ({"split/half/test": "40\n"}, {"rule": "column"}, "mine: split/half/test.csv.gz "
         "assigns graph 40 to test, but graph ids are 0..39."),
    ],
)  # fmt: skip
def test_invalid_ogb_folders_are_rejected(tmp_path, more, options, message):
    path = write_ogb(tmp_path / "mine", **more)
    with pytest.raises((StageError, UsageError)) as error:
        open_user_file(path, "ogb", **options)
    assert message in str(error.value)


TABLES = ["raw/edge", "raw/num-node-list", "raw/num-edge-list", "raw/node-feat", "raw/graph-label",
         "split/half/test", "mapping/mol"]  # fmt: skip


@given(st.dictionaries(st.sampled_from(TABLES), st.text(alphabet='019,.-\n"naxé', max_size=30)))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=60,
)
def test_any_ogb_tables_are_read_or_rejected(tmp_path, files):
    path = write_ogb(tmp_path / "mine")
    for name, text in files.items():
        (path / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    with contextlib.suppress(StageError):
        dataset = open_user_file(path, "ogb", rule="column", task="regression", environments=1)
        assert build_splits(dataset)["train"]
