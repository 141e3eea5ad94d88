"""Reports of corpora that label nodes: what moved, how far, and pictures of neighborhoods."""

import dataclasses
import re

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from gsx.schema import SPLITS
from gsx.stages.report import model_agreement as teacher
from gsx.stages.report import node_checks
from gsx.stages.report import node_data as nodes
from gsx.stages.report.model_results import BEFORE
from gsx.stages.report.node_gallery import MOST, around, node_cards
from gsx.stages.report.report import Sources, report
from gsx.stages.report.shift_data import shifts
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.integration.test_train_nodes import SMALL
from tests.support.browser import CHROMIUM, open_page
from tests.support.make_golden import pages
from tests.support.run_stages import run_stage
from tests.support.synthetic_corpora import planted_nodes, write_planted

REPLICAS = {"featx": True, "options": "000", "replicas": 5}
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@pytest.fixture(scope="module", params=["dense", "sparse"])
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nodes")
    source = write_planted(folder, *planted_nodes(240, sparse=request.param == "sparse"))
    mask = run_stage(folder, "mask", {"steps": 40}, {"prepare": source})
    moved = run_stage(folder, "generate", REPLICAS, {"prepare": source, "mask": mask})
    model = run_stage(folder, "train", {**SMALL, "source": "prepare"}, {"prepare": source})
    return {"prepare": source, "mask": mask, "generate": moved, "model": model}


@pytest.fixture(scope="module")
def facts(made):
    return nodes.read_nodes(Corpus(made["generate"]))


@pytest.fixture(scope="module")
def text(made):
    lineage = tuple(made[name].manifest for name in ("generate", "mask", "prepare"))
    models = [(BEFORE, made["model"])]
    return report(Sources(corpus=Corpus(made["generate"]), lineage=lineage, models=models))


def checks_of(facts, made):
    found = node_checks.node_checks(facts, (made["generate"].manifest,))
    return {check.title: (check.verdict, check.figure) for check in found}


def test_classes_that_are_numbered_otherwise_are_found(facts):
    held = facts.split == SPLITS.index("ood_test")
    turned = np.where(held, 1 - facts.label, facts.label)
    for label, verdict in ((facts.label, "good"), (turned, "bad")):
        found = {
            check.title: check
            for check in node_checks.class_checks(dataclasses.replace(facts, label=label))
        }
        check = found["Classes of ood_test are numbered as in training"]
        assert check.verdict == verdict
        assert ("seem to be numbered otherwise" in check.text) == (verdict == "bad")


def test_only_some_replicas_are_read_and_nodes_stand_over_their_own(facts):
    assert len(facts.replicas) == nodes.REPLICAS < facts.total_replicas == 5
    for replica in facts.replicas:
        assert (facts.split[replica.nodes[replica.moved]] == 0).all()
        assert replica.moved.sum() == (facts.split == 0).sum()


def test_true_replicas_pass_and_every_kind_of_damage_is_found(facts, made):
    asked = made["generate"].manifest.summary["quality"]["featx"]["moved_features"]
    assert checks_of(facts, made) == {
        "Held-out nodes are as they were": ("good", "0"),
        "Labels are those of the source": ("good", "0"),
        "Only chosen features moved": ("good", str(asked)),
    }
    first = facts.replicas[0]
    still = int(np.flatnonzero(~first.moved)[0])
    plain = first.features.toarray() if isinstance(first.features, csr_matrix) else first.features
    features = plain.copy()
    features[still] += 1
    y = np.array(first.y)
    y[:2] = np.roll(y[:2], 1, axis=1)
    if isinstance(first.features, csr_matrix):
        features = csr_matrix(features)
    wrong = dataclasses.replace(first, features=features, y=y)
    found = checks_of(dataclasses.replace(facts, replicas=(wrong,)), made)
    assert found == {
        "Held-out nodes are as they were": ("bad", "1"),
        "Labels are those of the source": ("bad", "2"),
        "Only chosen features moved": ("bad", "12"),
    }


def test_moved_features_and_shifted_ones_are_both_among_those_shown(facts, made):
    info = Corpus(made["generate"]).info
    sample = nodes.sample_nodes(facts, 0)
    found = {each.name: each.far for each in shifts(sample.features, info)}
    assert max(far["augmented"] for far in found.values()) > 0.05
    kept = [far["augmented"] for name, far in found.items() if int(name.split()[1]) < 6]
    assert max(kept, default=0) < 0.05  # causal features never move
    assert nodes.moved_counts(facts).max() <= 6


def test_a_classifier_is_asked_about_moved_nodes_in_their_replica(facts, made):
    corpus, sample = Corpus(made["generate"]), nodes.sample_nodes(facts, 0)
    found, _ = teacher.find(corpus, [(BEFORE, made["model"])], None, made=True)
    told = teacher.ask_nodes(found, corpus, facts, sample)
    rows = {row["group"]: row for row in told.rows}
    assert rows["augmented"]["name"] == "synthetic: features extrapolated"
    assert rows["augmented"]["items"] == len(sample.nodes["augmented"])
    alone = dataclasses.replace(facts, replicas=facts.replicas[:1])
    again = teacher.ask_nodes(found, corpus, alone, nodes.sample_nodes(alone, 0))
    assert len(again.points["augmented"]) == int(facts.replicas[0].moved.sum())


def test_the_page_answers_the_questions(text):
    words = re.sub(r"<[^>]+>", " ", text)
    for title in ("What it is", "How it was made", "How far it reaches", "Is it still true?",
                  "What it looks like", "What it does for learning", "Features moved",
                  "What a classifier tells", "What a classifier sees",
                  "Which features the mask chose"):  # fmt: skip
        assert title in words
    assert "5 replicas: features extrapolated" in re.sub(r"\s+", " ", words)
    assert "nan" not in text


def test_pictures_show_every_group_and_what_moved(facts, made):
    cards = node_cards(Corpus(made["generate"]).info, facts, nodes.sample_nodes(facts, 0))
    assert {card.split for card in cards} >= {"train", "ood_test"}
    moved = [card for card in cards if card.kind == "features extrapolated"]
    assert moved
    assert all(re.match(r"[1-6] features moved: \d+: .* → ", card.lines[1]) for card in moved)
    assert all(card.svg.count('class="truth"') == 1 for card in cards)


def test_a_neighborhood_is_bounded_and_begins_with_its_node():
    hub = np.zeros(500, dtype=np.int64)
    leaves = np.arange(1, 501)
    links = csr_matrix((np.ones(1000), (np.r_[hub, leaves], np.r_[leaves, hub])), shape=(501, 501))
    assert around(links, 0)[0] == 0
    found = around(links, 7)
    assert found[:2].tolist() == [7, 0]
    assert len(found) == len(set(found.tolist())) == MOST


def test_a_tiny_corpus_with_missing_labels_has_a_page(tmp_path):
    made = pages(Store.at(tmp_path))
    text = report(Sources(corpus=Corpus(made), lineage=(made.manifest,)))
    assert "No graph here names others that it was made from" in text
    assert text.count('class="truth"') >= 2


def test_nodes_of_no_split_are_said_to_be_none(tmp_path):
    table, info = planted_nodes(30)
    nobody = np.full(table.total_nodes, SPLITS.index("all"), dtype=np.int8)
    made = write_planted(tmp_path, table.with_columns(node={"node_split": nobody}), info)
    text = report(Sources(corpus=Corpus(made), lineage=(made.manifest,)))
    assert "No node is for training or held out, so none is drawn." in text


@needs_browser
def test_colors_can_be_those_of_environments(text, tmp_path):
    page = tmp_path / "nodes.html"
    page.write_text(text)
    color = "getComputedStyle(document.querySelector('.gallery .node.v0')).stroke"
    choose = (
        "(() => { const s = document.querySelector('select[name=colors]'); s.value = 'env';"
        " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    key = "[...document.querySelectorAll('[data-colors]')].filter(k => !k.hidden).length"
    fits = "document.documentElement.scrollWidth <= innerWidth"
    seen = open_page(page, [fits, key, choose, color, key], width=390)
    assert seen.errors == []
    assert seen.values == [True, 1, None, "rgb(0, 114, 178)", 1]
