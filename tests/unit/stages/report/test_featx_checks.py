"""What the report says of graphs whose features were moved is what the corpus holds."""

import dataclasses

import numpy as np
import pytest

from gsx.schema import ORIGINS
from gsx.stages.report import consistency_checks as truth
from gsx.stages.report.report import Sources, report
from gsx.stages.report.sample import read_facts, read_sample
from gsx.storage.artifacts.lineage import lineage_manifests
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.support.run_stages import run_recipe, run_stage

RECIPE = """
[prepare]
dataset = "fsmotif-size-color"
num_graphs = 300
[mask]
steps = 20
[generate]
options = "001"
bridges = "none"
ratio = 0.5
f = [2, 2]
featx = true
featx_features = "all"
"""
KEPT, CHOSEN = "Moved graphs keep label and edges", "Only chosen features moved"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("moved")


@pytest.fixture(scope="module")
def made(home):
    return run_recipe(home, RECIPE)


@pytest.fixture(scope="module")
def read(made):
    corpus = Corpus(made["generate"])
    facts = read_facts(corpus)
    return corpus, facts, read_sample(corpus, facts, 0, lambda *_: None)


def checks_of(read, lineage, **changes):
    corpus, facts, sample = read
    facts, sample = changes.get("facts", facts), changes.get("sample", sample)
    return {check.title: check for check in truth.checks(corpus.info, facts, sample, lineage)}


@pytest.fixture(scope="module")
def lineage(made, home):
    return lineage_manifests(Store.at(home), made["generate"])


def moved_rows(facts):
    return np.flatnonzero(facts.origin == ORIGINS.index("featx"))


def test_graphs_with_moved_features_pass(read, lineage):
    _, facts, _ = read
    found = checks_of(read, lineage)
    assert (found[KEPT].verdict, found[KEPT].figure) == ("good", "100.0%")
    assert f"Of {len(moved_rows(facts)):,} graphs with moved features 0 have" in found[KEPT].text
    assert found[CHOSEN].verdict == "good"
    synthetic = int((facts.origin > 0).sum())
    assert f"0 of {synthetic:,} synthetic" in found["No held-out graph leaks in"].text


def test_one_other_label_is_found(read, lineage):
    _, facts, _ = read
    y = facts.y.copy()
    y[moved_rows(facts)[3]] = np.roll(y[moved_rows(facts)[3]], 1) + 0.25
    check = checks_of(read, lineage, facts=dataclasses.replace(facts, y=y))[KEPT]
    assert check.verdict == "bad"
    assert "1 have another label" in check.text


def test_one_other_edge_is_found(read, lineage):
    _, facts, sample = read
    row = sample.at(moved_rows(facts))[0]
    dst = sample.table.dense("edge", "edge_dst").copy()
    first = int(sample.table.edge_ptr[row])
    dst[first] = sample.table.dense("edge", "edge_src")[first]
    other = dataclasses.replace(sample, table=sample.table.with_columns(edge={"edge_dst": dst}))
    found = checks_of(read, lineage, sample=other)
    assert found[KEPT].verdict == "bad"
    assert "1 have other edges." in found[KEPT].text
    assert CHOSEN not in found


def test_more_features_than_were_to_move_are_found(read, lineage):
    import msgspec

    made = lineage[0]
    told = {**made.summary["quality"], "featx": {**made.summary["quality"]["featx"],
                                                 "moved_features": 1}}  # fmt: skip
    fewer = msgspec.structs.replace(made, summary={**made.summary, "quality": told})
    check = checks_of(read, [fewer])[CHOSEN]
    assert check.verdict == "bad"
    assert check.text.endswith("of 1 that were to be moved.")


def test_without_its_parents_nothing_is_claimed(made, home):
    config = {"options": "000", "featx": True, "featx_features": "all", "augmented_only": True}
    alone = run_stage(home, "generate", config, {"prepare": made["prepare"], "mask": made["mask"]})
    text = report(Sources(corpus=Corpus(alone), lineage=(alone.manifest,)))
    assert "The graphs whose features were moved are not in this corpus." in text
