"""Reports of node-labelled corpora: checks, coverage, agreement and gallery."""

import dataclasses
import re

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from gsx.schema import SPLITS
from gsx.stages.report import model_agreement, node_checks, node_data
from gsx.stages.report.model_results import SOURCE_CORPUS
from gsx.stages.report.node_gallery import MAX_NODES, neighborhood, node_cards
from gsx.stages.report.report import ReportInputs, report
from gsx.stages.report.shift_data import feature_shifts
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.support.browser import CHROMIUM, open_page
from tests.support.make_golden import pages
from tests.support.run_stages import run_stage
from tests.support.synthetic_corpora import planted_nodes, write_planted

REPLICAS = {"featx": True, "options": "000", "replicas": 5}
TRAIN = {"source": "prepare", "backbone": "gcn", "width": 16, "epochs": 3, "batch_size": 200,
         "samples": 3, "coverage": 5}  # fmt: skip
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@pytest.fixture(scope="module", params=["dense", "sparse"])
def artifacts(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nodes")
    source = write_planted(folder, *planted_nodes(240, sparse=request.param == "sparse"))
    mask = run_stage(folder, "mask", {"steps": 40}, {"prepare": source})
    changed = run_stage(folder, "generate", REPLICAS, {"prepare": source, "mask": mask})
    model = run_stage(folder, "train", TRAIN, {"prepare": source})
    return {"prepare": source, "mask": mask, "generate": changed, "model": model}


@pytest.fixture(scope="module")
def columns(artifacts):
    return node_data.read_node_columns(Corpus(artifacts["generate"]))


@pytest.fixture(scope="module")
def text(artifacts):
    lineage = tuple(artifacts[name].manifest for name in ("generate", "mask", "prepare"))
    models = [(SOURCE_CORPUS, artifacts["model"])]
    return report(
        ReportInputs(corpus=Corpus(artifacts["generate"]), lineage=lineage, models=models)
    )


def checks_of(columns, artifacts):
    checks = node_checks.node_checks(columns, (artifacts["generate"].manifest,))
    return {check.title: (check.verdict, check.figure) for check in checks}


def test_permuted_class_ids_are_detected(columns):
    held_out = columns.split == SPLITS.index("ood_test")
    permuted = np.where(held_out, 1 - columns.label, columns.label)
    for label, verdict in ((columns.label, "good"), (permuted, "bad")):
        checks = {
            check.title: check
            for check in node_checks.class_checks(dataclasses.replace(columns, label=label))
        }
        check = checks["Class ids of ood_test match training"]
        assert check.verdict == verdict
        assert ("appear to be permuted" in check.text) == (verdict == "bad")


def test_only_some_replicas_are_read(columns):
    assert len(columns.replicas) == node_data.MAX_REPLICAS < columns.total_replicas == 5
    for replica in columns.replicas:
        assert (columns.split[replica.nodes[replica.changed]] == 0).all()
        assert replica.changed.sum() == (columns.split == 0).sum()


def test_valid_replicas_pass_and_damage_is_detected(columns, artifacts):
    num_selected = artifacts["generate"].manifest.summary["quality"]["featx"][
        "extrapolated_features"
    ]
    assert checks_of(columns, artifacts) == {
        "Held-out nodes are unchanged": ("good", "0"),
        "Labels equal those of the source": ("good", "0"),
        "FeatX changes selected features only": ("good", str(num_selected)),
    }
    first = columns.replicas[0]
    held_out_node = int(np.flatnonzero(~first.changed)[0])
    dense = first.features.toarray() if isinstance(first.features, csr_matrix) else first.features
    features = dense.copy()
    features[held_out_node] += 1
    y = np.array(first.y)
    y[:2] = np.roll(y[:2], 1, axis=1)
    if isinstance(first.features, csr_matrix):
        features = csr_matrix(features)
    damaged = dataclasses.replace(first, features=features, y=y)
    checks = checks_of(dataclasses.replace(columns, replicas=(damaged,)), artifacts)
    assert checks == {
        "Held-out nodes are unchanged": ("bad", "1"),
        "Labels equal those of the source": ("bad", "2"),
        "FeatX changes selected features only": ("bad", "12"),
    }


def test_changed_and_shifted_features_are_both_shown(columns, artifacts):
    info = Corpus(artifacts["generate"]).info
    sample = node_data.sample_nodes(columns, 0)
    variation = {
        shift.name: shift.total_variation for shift in feature_shifts(sample.features, info)
    }
    assert max(total_variation["augmented"] for total_variation in variation.values()) > 0.05
    unselected = [
        total_variation["augmented"]
        for name, total_variation in variation.items()
        if int(name.split()[1]) < 6
    ]
    assert max(unselected, default=0) < 0.05  # causal features never change
    assert node_data.changed_feature_counts(columns).max() <= 6


def test_agreement_of_augmented_nodes_uses_their_replica(columns, artifacts):
    corpus, sample = Corpus(artifacts["generate"]), node_data.sample_nodes(columns, 0)
    model, _ = model_agreement.find_reference_model(
        corpus, [(SOURCE_CORPUS, artifacts["model"])], None, has_augmented=True
    )
    agreement = model_agreement.node_agreement(model, corpus, columns, sample)
    rows = {row["group"]: row for row in agreement.rows}
    assert rows["augmented"]["name"] == "generated: features extrapolated"
    assert rows["augmented"]["items"] == len(sample.nodes["augmented"])
    one_replica = dataclasses.replace(columns, replicas=columns.replicas[:1])
    again = model_agreement.node_agreement(
        model, corpus, one_replica, node_data.sample_nodes(one_replica, 0)
    )
    assert len(again.points["augmented"]) == int(columns.replicas[0].changed.sum())


def test_page_has_all_sections(text):
    words = re.sub(r"<[^>]+>", " ", text)
    for title in ("Overview", "Lineage", "Coverage beyond the training distribution",
                  "Validity checks", "Gallery", "Classifier scores", "Changed features",
                  "Classifier agreement", "Classifier embedding", "Feature mask"):  # fmt: skip
        assert title in words
    assert "5 replicas: features extrapolated" in re.sub(r"\s+", " ", words)
    assert "nan" not in text


def test_gallery_shows_every_group_and_changed_features(columns, artifacts):
    cards = node_cards(
        Corpus(artifacts["generate"]).info, columns, node_data.sample_nodes(columns, 0)
    )
    assert {card.split for card in cards} >= {"train", "ood_test"}
    changed = [card for card in cards if card.kind == "features extrapolated"]
    assert changed
    assert all(re.match(r"[1-6] features changed: \d+: .* → ", card.lines[1]) for card in changed)
    assert all(card.svg.count('class="truth"') == 1 for card in cards)


def test_neighborhood_is_bounded_and_starts_with_its_node():
    hub = np.zeros(500, dtype=np.int64)
    leaves = np.arange(1, 501)
    adjacency = csr_matrix(
        (np.ones(1000), (np.r_[hub, leaves], np.r_[leaves, hub])), shape=(501, 501)
    )
    assert neighborhood(adjacency, 0)[0] == 0
    nodes = neighborhood(adjacency, 7)
    assert nodes[:2].tolist() == [7, 0]
    assert len(nodes) == len(set(nodes.tolist())) == MAX_NODES


def test_page_of_a_tiny_corpus_with_missing_labels(tmp_path):
    artifact = pages(Store.at(tmp_path))
    text = report(ReportInputs(corpus=Corpus(artifact), lineage=(artifact.manifest,)))
    assert "The corpus has no generated graphs or replicas" in text
    assert text.count('class="truth"') >= 2


def test_page_without_nodes_in_any_split(tmp_path):
    table, info = planted_nodes(30)
    no_split = np.full(table.total_nodes, SPLITS.index("all"), dtype=np.int8)
    artifact = write_planted(tmp_path, table.with_columns(node={"node_split": no_split}), info)
    text = report(ReportInputs(corpus=Corpus(artifact), lineage=(artifact.manifest,)))
    assert "No node belongs to a training or held-out split, so none is drawn." in text


@needs_browser
def test_colors_can_show_environments(text, tmp_path):
    page = tmp_path / "nodes.html"
    page.write_text(text)
    color = "getComputedStyle(document.querySelector('.gallery .node.v0')).stroke"
    choose = (
        "(() => { const s = document.querySelector('select[name=colors]'); s.value = 'env';"
        " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    key = "[...document.querySelectorAll('[data-colors]')].filter(k => !k.hidden).length"
    fits = "document.documentElement.scrollWidth <= innerWidth"
    loaded = open_page(page, [fits, key, choose, color, key], width=390)
    assert loaded.errors == []
    assert loaded.values == [True, 1, None, "rgb(0, 114, 178)", 1]
