"""Artifacts written by an older gsx stay readable, and today's gsx writes the same bytes."""

import json
import shutil
from importlib.metadata import version

import numpy as np
import pytest

import gsx
from gsx.ragged import decode_texts
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.store import Store
from gsx.storage.artifacts.verify_files import read_manifest
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.make_golden import GOLDEN, motif, pages, pages_table

NAMES = ("motif", "pages")


@pytest.fixture(params=NAMES)
def golden(request, tmp_path):
    """A golden artifact as another team would receive it."""
    return shutil.copytree(GOLDEN / request.param, tmp_path / request.param)


def same_versions():
    recorded = json.loads((GOLDEN / "versions.json").read_text())
    return all(version(name) == found for name, found in recorded.items())


def test_a_golden_artifact_passes_every_check(golden):
    assert verify_artifact(Location.at(golden)).problems == ()


def test_a_golden_corpus_opens(golden):
    assert len(gsx.open(golden)) == sum(gsx.open(golden).splits.values())


def test_the_first_golden_motif_graph_is_as_it_was():
    table = gsx.open(GOLDEN / "motif").table(split="train").slice(0, 1)
    assert table.graph["label"].tolist() == [1]
    assert table.num_nodes.tolist() == [22]
    pairs = zip(table.edge["edge_src"].tolist(), table.edge["edge_dst"].tolist(), strict=True)
    spokes = [(0, rim) for rim in range(1, 17)]
    rim = [(node, node + 1) for node in range(1, 16)] + [(1, 16)]
    motif_edges = [(17, 18), (18, 19), (19, 20), (20, 21), (17, 21)]
    added = [(2, 6)]
    anchor = [(10, 17)]
    assert sorted(pair for pair in pairs if pair[0] < pair[1]) == sorted(
        spokes + rim + motif_edges + added + anchor
    )
    assert table.node["node_truth"].tolist() == [0] * 17 + [1] * 5


@pytest.mark.parametrize("form", ["parquet", "zarr"])
def test_the_golden_pages_hold_what_was_written(form):
    table = gsx.open(GOLDEN / "pages", format=form).table()
    assert table.equals(pages_table())
    assert decode_texts(table.lists("graph", "title")) == ["Graphs, Größe und 図"]
    assert np.isnan(table.node["node_y"][2]).all()


@pytest.mark.skipif(not same_versions(), reason="bytes are pinned for the locked versions only")
@pytest.mark.parametrize(("name", "make"), [("motif", motif), ("pages", pages)])
def test_todays_gsx_writes_the_same_bytes(tmp_path, name, make):
    made = make(Store.at(tmp_path / "store"))
    assert made.manifest == read_manifest(Location.at(GOLDEN / name))
