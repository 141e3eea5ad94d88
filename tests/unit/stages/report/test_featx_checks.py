"""Validity checks of graphs with extrapolated features."""

import dataclasses

import numpy as np
import pytest

from gsx.schema import ORIGINS
from gsx.stages.report.consistency_checks import consistency_checks
from gsx.stages.report.report import ReportInputs, report
from gsx.stages.report.sample import read_graph_columns, read_sample
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
KEPT, SELECTED = "FeatX keeps labels and edges", "FeatX changes selected features only"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("featx")


@pytest.fixture(scope="module")
def artifacts(home):
    return run_recipe(home, RECIPE)


@pytest.fixture(scope="module")
def corpus_data(artifacts):
    corpus = Corpus(artifacts["generate"])
    columns = read_graph_columns(corpus)
    return corpus, columns, read_sample(corpus, columns, 0, lambda *_: None)


def checks_of(corpus_data, lineage, **changes):
    corpus, columns, sample = corpus_data
    columns, sample = changes.get("columns", columns), changes.get("sample", sample)
    return {
        check.title: check for check in consistency_checks(corpus.info, columns, sample, lineage)
    }


@pytest.fixture(scope="module")
def lineage(artifacts, home):
    return lineage_manifests(Store.at(home), artifacts["generate"])


def featx_rows(columns):
    return np.flatnonzero(columns.origin == ORIGINS.index("featx"))


def test_valid_featx_graphs_pass(corpus_data, lineage):
    _, columns, _ = corpus_data
    checks = checks_of(corpus_data, lineage)
    assert (checks[KEPT].verdict, checks[KEPT].figure) == ("good", "100.0%")
    assert (
        f"0 of {len(featx_rows(columns)):,} graphs with extrapolated features have"
        in checks[KEPT].text
    )
    assert checks[SELECTED].verdict == "good"
    synthetic = int((columns.origin > 0).sum())
    assert f"0 of {synthetic:,} generated" in checks["No leakage of held-out graphs"].text


def test_one_changed_label_is_detected(corpus_data, lineage):
    _, columns, _ = corpus_data
    y = columns.y.copy()
    y[featx_rows(columns)[3]] = np.roll(y[featx_rows(columns)[3]], 1) + 0.25
    check = checks_of(corpus_data, lineage, columns=dataclasses.replace(columns, y=y))[KEPT]
    assert check.verdict == "bad"
    assert check.text.startswith("1 of ")


def test_one_changed_edge_is_detected(corpus_data, lineage):
    _, columns, sample = corpus_data
    row = sample.at(featx_rows(columns))[0]
    dst = sample.table.dense("edge", "edge_dst").copy()
    first = int(sample.table.edge_ptr[row])
    dst[first] = sample.table.dense("edge", "edge_src")[first]
    damaged = dataclasses.replace(sample, table=sample.table.with_columns(edge={"edge_dst": dst}))
    checks = checks_of(corpus_data, lineage, sample=damaged)
    assert checks[KEPT].verdict == "bad"
    assert "sampled ones have other edges." in checks[KEPT].text
    assert SELECTED not in checks


def test_changes_of_unselected_features_are_detected(corpus_data, lineage):
    import msgspec

    manifest = lineage[0]
    quality = {**manifest.summary["quality"], "featx": {**manifest.summary["quality"]["featx"],
                                                 "extrapolated_features": 1}}  # fmt: skip
    fewer = msgspec.structs.replace(manifest, summary={**manifest.summary, "quality": quality})
    check = checks_of(corpus_data, [fewer])[SELECTED]
    assert check.verdict == "bad"
    assert check.text.endswith("; 1 were selected.")


def test_checks_are_skipped_without_parents(artifacts, home):
    config = {"options": "000", "featx": True, "featx_features": "all", "augmented_only": True}
    alone = run_stage(
        home, "generate", config, {"prepare": artifacts["prepare"], "mask": artifacts["mask"]}
    )
    text = report(ReportInputs(corpus=Corpus(alone), lineage=(alone.manifest,)))
    assert "The parents of the graphs with extrapolated features are not in this corpus." in text
