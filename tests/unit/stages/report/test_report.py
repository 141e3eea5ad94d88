"""The report: what it says is what the corpus holds, and a real browser shows it."""

import dataclasses
import json
import re

import numpy as np
import pytest

from gsx.graph_svg import shortest_path_lengths, node_positions
from gsx.ragged import Ragged
from gsx.schema import ORIGINS
from gsx.stages.report import consistency_checks as truth
from gsx.stages.report import gallery
from gsx.stages.report.charts import histogram, scatter
from gsx.stages.report.graph_embedding import embed, nearest, plane_of
from gsx.stages.report.report import Sources, report
from gsx.stages.report.sample import (
    draw,
    read_facts,
    read_sample,
    rows_by_id,
    spread,
    with_parents,
)
from gsx.storage.artifacts.lineage import lineage_manifests
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.support.artifacts import gsx as run
from tests.support.browser import CHROMIUM, open_page
from tests.support.run_stages import run_recipe, run_stage

RECIPE = """
[prepare]
dataset = "motif-size"
num_graphs = 600
[extract]
node_epochs = 1
set_epochs = 1
[bridge]
epochs = 1
[generate]
ratio = 0.3
f = [2, 3]
[train]
epochs = 2
width = 16
"""

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def made(home):
    found = run_recipe(home, RECIPE)
    given = {"prepare": found["prepare"]}
    run_stage(home, "train", {"epochs": 2, "width": 16, "source": "prepare"}, given)
    return found


@pytest.fixture(scope="module")
def corpus(made):
    return Corpus(made["generate"])


@pytest.fixture(scope="module")
def page(made, home):
    """The report of a small run with all three options and two models."""
    target = home / "out" / "report.html"
    said = run("report", made["generate"].key[:12], "-o", target, "--store", home, "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["bytes"] == target.stat().st_size
    return target


@pytest.fixture(scope="module")
def read(corpus):
    facts = read_facts(corpus)
    return facts, read_sample(corpus, facts, 0, lambda *_: None)


def text_of(page):
    return re.sub(r"<[^>]+>", " ", page.read_text())


def test_facts_are_those_of_the_table(corpus, read):
    facts, _ = read
    table = corpus.table()
    assert facts.graph_id.tolist() == table.graph["graph_id"].tolist()
    assert facts.nodes.tolist() == table.num_nodes.tolist()
    assert facts.parents.equals(table.graph["provenance.parents"])


def test_the_sample_holds_every_group_and_all_parents(read):
    facts, sample = read
    assert sample.table.graph["graph_id"].tolist() == facts.graph_id[sample.rows].tolist()
    for rows in facts.groups.values():
        assert len(sample.at(rows)) >= min(len(rows), 1500)
    parents = rows_by_id(facts, sample.table.lists("graph", "provenance.parents").values)
    assert np.isin(parents, sample.rows).all()


def test_what_is_measured_is_drawn_evenly_and_not_by_label(read):
    """One label in a hundred stays one in a hundred, or scores and shifts would be of others."""
    facts, _ = read
    rare = np.zeros(len(facts.label), dtype=np.int64)
    rare[facts.groups["train"][::100]] = 1
    drawn = draw(dataclasses.replace(facts, label=rare), 0, each=200)
    assert {name: len(rows) for name, rows in drawn.items()} == {
        name: min(len(rows), 200) for name, rows in facts.groups.items()
    }
    assert rare[drawn["train"]].sum() <= 4  # all of them, were labels taken in turn
    assert all(np.isin(rows, facts.groups[name]).all() for name, rows in drawn.items())


def test_parents_of_what_was_drawn_do_not_stand_for_their_group(read):
    facts, sample = read
    short = dataclasses.replace(sample, drawn=draw(facts, 0, each=20))
    assert {name: len(rows) for name, rows in short.groups.items()} == dict.fromkeys(
        facts.groups, 20
    )


def test_pictures_are_chosen_from_every_environment_origin_and_label(read):
    facts, _ = read
    rows = spread(facts, 0, each=2)
    kinds = np.stack([facts.split, facts.env, facts.origin, facts.label], axis=1)
    every = np.concatenate(list(facts.groups.values()))
    found, counts = np.unique(kinds[rows], axis=0, return_counts=True)
    assert found.tolist() == np.unique(kinds[every], axis=0).tolist()
    assert counts.max() == 2


def test_many_environments_do_not_make_a_page_of_many_megabytes(read):
    facts, sample = read
    apart = dataclasses.replace(facts, env=np.arange(len(facts.env)))
    chosen = gallery._choose(apart, sample, 0)
    assert np.isin(chosen, facts.groups["train"]).sum() == gallery.MOST
    assert len(chosen) <= len(facts.groups) * gallery.MOST


def test_parents_of_parents_are_in_the_sample(read):
    """A graph whose features were moved may come from one that was spliced."""
    facts, _ = read
    some = {each.name: getattr(facts, each.name)[:3] for each in dataclasses.fields(facts)
            if each.name != "parents"}  # fmt: skip
    ids = facts.graph_id[:3]
    chain = Ragged(np.array([0, 0, 1, 2]), np.array([ids[0], ids[1]]))
    short = dataclasses.replace(facts, **some, parents=chain)
    assert with_parents(short, np.array([2])).tolist() == [0, 1, 2]
    assert with_parents(short, np.array([1])).tolist() == [0, 1]


def test_an_id_the_corpus_lacks_has_no_row(read):
    facts, _ = read
    assert rows_by_id(facts, np.array([10**9, int(facts.graph_id[3])])).tolist() == [-1, 3]


def checks_of(corpus, facts, sample, lineage=()):
    return {check.title: check for check in truth.checks(corpus.info, facts, sample, lineage)}


def test_true_splices_pass_every_check(corpus, read, made, home):
    lineage = lineage_manifests(Store.at(home), made["generate"])
    found = checks_of(corpus, *read, lineage)
    assert {name: check.verdict for name, check in found.items()
            if check.verdict != "note"}.keys() >= {
        "Labels follow from parents", "Edges come from parents", "Graphs are connected",
        "No held-out graph leaks in",
    }  # fmt: skip
    assert not [check for check in found.values() if check.verdict == "bad"]
    spliced = int((read[0].origin > 0).sum())
    assert found["Labels follow from parents"].text.startswith(
        f"Every label of {spliced:,} spliced graphs"
    )


def test_one_wrong_label_is_found(corpus, read):
    facts, sample = read
    y = facts.y.copy()
    row = int(np.flatnonzero(facts.origin == ORIGINS.index("g_inv_env"))[0])
    y[row] = np.roll(y[row], 1)
    wrong = dataclasses.replace(facts, y=y)
    check = checks_of(corpus, wrong, sample)["Labels follow from parents"]
    assert (check.verdict, check.text[-9:]) == ("bad", "1 differ.")


def test_one_foreign_edge_is_found(corpus, read):
    facts, sample = read
    table = sample.table
    row = int(np.flatnonzero(facts.origin[sample.rows] == ORIGINS.index("g_inv"))[0])
    first = int(table.edge_ptr[row])
    dst = table.dense("edge", "edge_dst").copy()
    dst[first] = table.dense("edge", "edge_src")[first]  # a loop that no Motif graph has
    changed = dataclasses.replace(sample, table=table.with_columns(edge={"edge_dst": dst}))
    check = checks_of(corpus, facts, changed)["Edges come from parents"]
    assert check.verdict == "bad"
    assert "1 of them are not in its parent" in check.text


def test_without_its_parents_a_corpus_says_that_it_cannot_be_checked(made, home):
    alone = run_stage(
        home, "generate", {"options": "001", "count": 30, "bridges": "none",
                           "augmented_only": True},
        {"prepare": made["prepare"]},
    )  # fmt: skip
    text = report(Sources(corpus=Corpus(alone), lineage=(alone.manifest,)))
    assert "The source graphs are not in this corpus, so labels cannot be computed again." in text
    assert "as `bridges = none` asks for" in text


def test_the_page_answers_the_questions(page, corpus):
    text = text_of(page)
    for title in ("What it is", "How it was made", "How far it reaches", "Is it still true?",
                  "What it looks like", "What it does for learning"):  # fmt: skip
        assert title in text
    assert f"{len(corpus):,}" in text
    assert corpus.artifact.manifest.digest in text
    assert "erm, gin, 2 epochs  this corpus" in re.sub(r"\s{2,}", "  ", text)
    assert "erm, gin, 2 epochs  its source" in re.sub(r"\s{2,}", "  ", text)


def test_the_same_corpus_gives_the_same_page(page, made, home):
    again = home / "again.html"
    run("report", made["generate"].key[:12], "-o", again, "--store", home)
    assert again.read_bytes() == page.read_bytes()


def test_nothing_outside_the_page_is_named(page):
    text = page.read_text()
    assert not re.search(r'(?:src|href)="(?!#|data:)', text)
    assert "@import" not in text
    assert "url(" not in text


def test_words_of_a_corpus_cannot_become_markup(made, home):
    import msgspec

    corpus = Corpus(made["prepare"])
    evil = "<script>alert(1)</script>"
    corpus.info = msgspec.structs.replace(corpus.info, name=evil, description=evil, citation=evil)
    text = report(Sources(corpus=corpus, lineage=(made["prepare"].manifest,)))
    assert evil not in text
    assert text.count("<script>") == 1


def test_molecules_are_drawn_with_pieces_and_bridges_in_colors_of_the_page(tmp_path):
    from tests.integration.test_generate_molecules import SMILES

    table = tmp_path / "assay.csv"
    rows = [f"{text},{int('N' in text)}" for text in SMILES[::2]]
    table.write_text("\n".join(["smiles,active", *rows]) + "\n")
    told = run("prepare", "--smiles", table, "--target", "active", "--domain", "scaffold",
               "--store", tmp_path, "--json")  # fmt: skip
    source = Store.at(tmp_path).resolve(json.loads(told.out)["key"])
    bridge = run_stage(tmp_path, "bridge", {"epochs": 1}, {"prepare": source})
    options = {"options": "001", "count": 20, "f": (2, 2)}
    made = run_stage(tmp_path, "generate", options, {"prepare": source, "bridge": bridge})
    text = report(Sources(corpus=Corpus(made), lineage=(made.manifest, source.manifest)))
    assert text.count('<svg class="molecule"') >= 20
    for color in ("--m-w0)", "--m-w1)", "--m-bridge)"):
        assert f"var({color}" in text
    assert "#000000" not in text
    assert "New scaffolds" in text
    assert "RDKit reads the SMILES of 20 of 20 spliced molecules" in text
    assert "20 of them say the atoms, charges and bonds of the graph" in text
    assert "says yes or no to active, scored by ROC-AUC" in text


@needs_browser
def test_a_browser_shows_the_page_without_a_complaint_and_fetches_nothing(page):
    seen = open_page(page, ["document.documentElement.scrollWidth <= innerWidth"], width=390)
    assert seen.errors == []
    assert seen.requests == []
    assert seen.values == [True]  # nothing sticks out on a phone


@needs_browser
def test_filters_show_the_graphs_that_are_asked_for(page):
    shown = "[...document.querySelectorAll('.gallery figure')].filter(f => !f.hidden)"
    choose_ = (
        "(() => { const s = document.querySelector(`select[name=%s]`); s.value = %s;"
        " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    seen = open_page(
        page,
        [
            f"{shown}.length",
            choose_ % ("kind", "'whole graphs joined'"),
            f"{shown}.length",
            f"{shown}.every(f => f.dataset.kind === 'whole graphs joined')",
            "document.getElementById('shown').textContent",
            "[...document.querySelector('select[name=split]').options]"
            ".filter(o => !o.disabled).map(o => o.value)",
            "document.querySelector('.filters button').click()",
            f"new Promise(r => setTimeout(() => r({shown}.length), 50))",
        ],
    )
    every, _, some, right, said, splits, _, again = seen.values
    assert seen.errors == []
    assert 0 < some < every == again
    assert right is True
    assert said == f"{some} of {every} pictures"
    assert splits == ["", "train"]


def test_distances_on_paper_follow_distances_in_the_graph():
    src = np.array([0, 1, 2, 3])
    dst = np.array([1, 2, 3, 4])
    assert shortest_path_lengths(src, dst, 5)[0].tolist() == [0, 1, 2, 3, 4]
    at = node_positions(src, dst, 5)
    assert np.abs(np.diff(np.diff(at, axis=0), axis=0)).max() < 0.05  # a path is a line
    assert at.min() >= -1e-9
    assert at.max() <= 1 + 1e-9


@pytest.mark.parametrize("nodes", [0, 1, 2])
def test_tiny_graphs_and_nodes_apart_have_places(nodes):
    none = np.zeros(0, dtype=np.int64)
    at = node_positions(none, none, nodes)
    assert at.shape == (nodes, 2)
    assert np.isfinite(at).all()


def test_leaves_of_a_star_do_not_fall_together():
    leaves = np.arange(1, 9)
    at = node_positions(np.zeros(8, dtype=np.int64), leaves, 9)
    apart = np.linalg.norm(at[:, None] - at[None], axis=-1) + np.eye(9)
    assert apart.min() > 0.1


def test_equal_graphs_have_equal_vectors_whatever_the_order_of_nodes(motif_table):
    table = motif_table.slice(0, 20)
    turned = []
    for row in range(20):
        one = table.slice(row, row + 1)
        order = np.random.default_rng(row).permutation(one.total_nodes)
        back = np.argsort(order)
        turned.append(
            one.with_columns(
                node={name: values[order] for name, values in one.node.items()},
                edge={name: back[one.edge[name]].astype(np.int32)
                      for name in ("edge_src", "edge_dst")},
            )
        )  # fmt: skip
    from gsx.table import concat

    assert np.allclose(embed(table), embed(concat(turned)))


def test_the_nearest_neighbor_is_found_in_blocks():
    vectors = np.random.default_rng(0).normal(size=(40, 5))
    others = np.random.default_rng(1).normal(size=(30, 5))
    expected = np.linalg.norm(vectors[:, None] - others[None], axis=-1).min(1)
    assert np.allclose(nearest(vectors, others, block=7), expected)


def test_constant_vectors_still_lie_in_a_plane():
    scaled, flat = plane_of(np.ones((5, 1)), np.ones(5, dtype=bool))
    assert np.isfinite(scaled).all()
    assert flat.shape == (5, 2)


@pytest.mark.parametrize(
    "values",
    [[3, 3, 3], [1, 2, 3], [0.1, 0.2, 5.5], [1, 10, 5748], [0, 0, 1000], [0.002, 0.1, 0.4]],
)
def test_any_values_have_a_histogram(values):
    drawn = histogram({"train": np.array(values)}, "nodes")
    assert "nan" not in drawn
    assert drawn.startswith("<svg")


def test_every_part_of_a_large_group_is_drawn_and_what_is_far_out_lies_on_the_edge():
    near, far = np.zeros((2000, 2)), np.full((2000, 2), 1.0)
    giant = np.array([[1e6, 1e6]])
    drawn = scatter({"augmented": np.concatenate([near, far, giant])}, "plane")
    places_ = re.findall(r"M([\d.]+) ([\d.]+)h0", drawn)
    assert len(places_) == 500
    assert len(set(places_)) == 3
    assert ("554.0", "6.0") in places_


def test_points_of_one_place_are_drawn():
    assert "nan" not in scatter({"train": np.zeros((3, 2))}, "plane")


def test_ragged_parents_are_read_as_lists(read):
    assert isinstance(read[0].parents, Ragged)
