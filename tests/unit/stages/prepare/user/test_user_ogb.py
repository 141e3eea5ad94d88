"""A user's graphs in a folder of OGB: read, split, or refused."""

import contextlib
import gzip

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gsx.errors import StageError, UsageError
from tests.unit.stages.prepare.user.test_user_graphs import COUNT, FUZZ, RINGS, same, saved
from tests.unit.stages.prepare.user.test_user_molecules import checked, source_of


def ogb(folder, arrays=False, **more):
    """Write the rings in the layout of OGB, every edge once; returns the folder."""
    at = [np.arange(graph.num_nodes) for graph in RINGS]
    tables = {
        "raw/edge": np.concatenate([np.stack([a, (a + 1) % len(a)], 1) for a in at]),
        "raw/num-node-list": np.array([[len(a)] for a in at]),
        "raw/num-edge-list": np.array([[len(a)] for a in at]),
        "raw/node-feat": np.concatenate([np.stack([a % 3, a % 2 + 4], 1) for a in at]),
        "raw/edge-feat": np.concatenate([np.full((len(a), 1), n / 2) for n, a in enumerate(at)]),
        "raw/graph-label": np.array([[n % 2] for n in range(COUNT)]),
        "split/half/train": np.arange(0, 20)[:, None],
        "split/half/valid": np.arange(20, 30)[:, None],
        "split/half/test": np.arange(30, 39)[:, None],
        **more,
    }
    text = "\n".join(f"{n % 2},C{n},{'C' * (n + 1)},{'pqrs'[n // 10]}" for n in range(COUNT))
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


def test_a_folder_of_ogb_gives_the_same_graphs_as_pyg_data(tmp_path):
    all_trained = {"ratios": (1.0, 0.0, 0.0)}
    source = source_of(ogb(tmp_path / "ogbg_ring"), "ogb", **all_trained)
    other = source_of(saved(tmp_path, RINGS), "pyg", **all_trained)
    assert same(source, other)
    assert not any("direction" in warning for warning in source.warnings)
    assert source.info.outputs == ("label",)
    assert source.info.column("node_feat").features == other.info.column("node_feat").features


def test_arrays_of_ogb_are_read_as_its_tables_are(tmp_path):
    plain = ogb(tmp_path / "ogbg_ring")
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
    one, two = (source_of(path, "ogb", rule="column") for path in (plain, tmp_path / "other"))
    assert same(one, two)
    assert list(one.split_sizes.values()) == [12, 4, 4, 10, 9]
    assert [each.count for each in one.dropped] == [1]


def test_tasks_of_ogb_have_names_missing_values_and_domains(tmp_path):
    labels = np.array([[n % 2, np.nan if n % 3 else n % 2] for n in range(COUNT)])
    path = ogb(tmp_path / "mine", **{"raw/graph-label": labels, "mapping/mol": None})
    text = "A,B,mol_id,smiles,assay\n" + "".join(
        f"{n % 2},,C{n},C1CC1{'C' * n},{'pqrs'[n // 10]}\n" for n in range(COUNT)
    )
    (path / "mapping/mol.csv.gz").write_bytes(gzip.compress(text.encode()))
    source = source_of(path, "ogb", domain="column:assay", ratios=(0.5, 0.25, 0.1))
    assert (source.info.task, source.info.outputs) == ("multitask", ("task_0", "task_1"))
    train = checked(source)["train"].graph
    assert (np.isnan(train["y"][:, 1]) == (train["graph_id"] % 3 > 0)).all()
    assert source.info.domains == ("assay p", "assay q", "assay r", "assay s")
    few = source_of(path, "ogb", targets=("task_0",), domain="scaffold", environments=1)
    assert (few.info.task, few.info.outputs) == ("binary", ("task_0",))


@pytest.mark.parametrize(
    ("more", "options", "message"),
    [
        ({"raw/edge": None}, {}, "raw/edge.csv.gz. It should be the folder of a graph-property"),
        ({"raw/graph-label": None}, {}, "has no file raw/graph-label.csv.gz."),
        ({"raw/node-label": "1\n"}, {}, "labels nodes, not graphs. Write its nodes and edges as"),
        ({"raw/triplet-type-list": "a,b,c"}, {}, "has several kinds of nodes"),
        ({}, {"rule": "column", "split_column": "most"}, "mine has these splits: half. Name one"),
        ({"split/half/valid": None}, {"rule": "column"}, "no file split/half/valid.csv.gz."),
        ({"raw/num-node-list": "3\n"}, {}, "mine: num-node-list is of 1 graphs, num-edge-list of "
         "40. The files do not belong together."),
        ({"raw/num-node-list": "a\n"}, {},
         "raw/num-node-list.csv.gz should hold numbers only: could not convert string 'a'"),
        ({"raw/num-edge-list": "-1\n" * COUNT}, {},
         "mine: num-edge-list should hold counts; found -1."),
        ({"raw/num-edge-list": "1\n" * COUNT}, {}, "mine: edge has 900 lines; num-edge-list adds "
         "up to 40. The files do not belong together."),
        ({"raw/edge": "0,1,2\n" * 900}, {},
         "mine: edge should hold two whole numbers in a line."),
        ({"raw/edge": "0,99\n" * 900}, {}, "mine: edge: graph 0 has an edge between nodes [0, 99], "
         "and 3 nodes, numbered from 0."),
        ({"raw/node-feat": "1\n2\n"}, {}, "mine: node-feat has 2 lines; there are 900 nodes."),
        ({"raw/node-feat": "inf\n" * 900}, {}, "mine: node-feat, row 0: a feature is not finite "
         "(900 such rows)."),
        ({"raw/graph-label": "yes\n" * COUNT}, {}, "raw/graph-label.csv.gz should hold numbers"),
        ({"raw/graph-label": "\n" * COUNT}, {}, "there are 40 graphs."),
        ({}, {"targets": ("b",)}, "mine has no task `b`; it has label."),
        ({}, {"domain": "column:asay"}, "mapping/mol.csv.gz has no column `asay`; its header is"),
        ({"split/half/test": "7\n"}, {"rule": "column"},
         "mine: split/half/test.csv.gz names graph 7, which has a split already."),
        ({"split/half/test": "40\n"}, {"rule": "column"}, "mine: split/half/test.csv.gz names "
         "graph 40 for test; graphs are numbered 0..39."),
    ],
)  # fmt: skip
def test_a_folder_of_ogb_that_cannot_be_used_is_refused(tmp_path, more, options, message):
    path = ogb(tmp_path / "mine", **more)
    with pytest.raises((StageError, UsageError)) as error:
        source_of(path, "ogb", **options)
    assert message in str(error.value)


PARTS = ["raw/edge", "raw/num-node-list", "raw/num-edge-list", "raw/node-feat", "raw/graph-label",
         "split/half/test", "mapping/mol"]  # fmt: skip


@given(st.dictionaries(st.sampled_from(PARTS), st.text(alphabet='019,.-\n"naxé', max_size=30)))
@FUZZ
def test_whatever_tables_of_ogb_hold_they_are_read_or_refused(tmp_path, files):
    path = ogb(tmp_path / "mine")
    for name, text in files.items():
        (path / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    with contextlib.suppress(StageError):
        checked(source_of(path, "ogb", rule="column", task="regression", environments=1))
