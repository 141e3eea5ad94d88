"""The report matches its corpus, and a browser renders it without errors."""

import dataclasses
import json
import re

import numpy as np
import pytest

from gsx.graph_svg import node_positions, shortest_path_lengths
from gsx.ragged import Ragged
from gsx.schema import ORIGINS
from gsx.stages.report import gallery
from gsx.stages.report.charts import histogram, scatter
from gsx.stages.report.consistency_checks import consistency_checks
from gsx.stages.report.graph_embedding import embed, nearest_distances, project_to_plane
from gsx.stages.report.report import ReportInputs, report
from gsx.stages.report.sample import (
    gallery_rows,
    read_graph_columns,
    read_sample,
    rows_by_id,
    sample_rows,
    with_ancestors,
)
from gsx.storage.artifacts.lineage import lineage_manifests
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.support.artifacts import gsx as run
from tests.support.browser import CHROMIUM, open_page
from tests.support.run_stages import run_recipe, run_stage
from tests.support.smiles import SMILES

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
def artifacts(home):
    artifacts = run_recipe(home, RECIPE)
    inputs = {"prepare": artifacts["prepare"]}
    run_stage(home, "train", {"epochs": 2, "width": 16, "source": "prepare"}, inputs)
    return artifacts


@pytest.fixture(scope="module")
def corpus(artifacts):
    return Corpus(artifacts["generate"])


@pytest.fixture(scope="module")
def page(artifacts, home):
    """The report of a small run with all three options and two models."""
    target = home / "out" / "report.html"
    result = run("report", artifacts["generate"].key[:12], "-o", target, "--store", home, "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["bytes"] == target.stat().st_size
    return target


@pytest.fixture(scope="module")
def columns_and_sample(corpus):
    columns = read_graph_columns(corpus)
    return columns, read_sample(corpus, columns, 0, lambda *_: None)


def text_of(page):
    return re.sub(r"<[^>]+>", " ", page.read_text())


def test_graph_columns_equal_the_table(corpus, columns_and_sample):
    columns, _ = columns_and_sample
    table = corpus.table()
    assert columns.graph_id.tolist() == table.graph["graph_id"].tolist()
    assert columns.nodes.tolist() == table.num_nodes.tolist()
    assert columns.parents.equals(table.graph["provenance.parents"])


def test_sample_contains_every_group_and_all_parents(columns_and_sample):
    columns, sample = columns_and_sample
    assert sample.table.graph["graph_id"].tolist() == columns.graph_id[sample.rows].tolist()
    for rows in columns.groups.values():
        assert len(sample.at(rows)) >= min(len(rows), 1500)
    parents = rows_by_id(columns, sample.table.lists("graph", "provenance.parents").values)
    assert np.isin(parents, sample.rows).all()


def test_sample_preserves_label_shares(columns_and_sample):
    """Otherwise scores and shifts would be those of another distribution."""
    columns, _ = columns_and_sample
    rare = np.zeros(len(columns.label), dtype=np.int64)
    rare[columns.groups["train"][::100]] = 1
    drawn = sample_rows(dataclasses.replace(columns, label=rare), 0, max_rows=200)
    assert {name: len(rows) for name, rows in drawn.items()} == {
        name: min(len(rows), 200) for name, rows in columns.groups.items()
    }
    assert rare[drawn["train"]].sum() <= 4  # all of them if labels alternated
    assert all(np.isin(rows, columns.groups[name]).all() for name, rows in drawn.items())


def test_parents_in_the_sample_do_not_count_for_their_group(columns_and_sample):
    columns, sample = columns_and_sample
    short = dataclasses.replace(sample, drawn=sample_rows(columns, 0, max_rows=20))
    assert {name: len(rows) for name, rows in short.groups.items()} == dict.fromkeys(
        columns.groups, 20
    )


def test_gallery_covers_every_environment_origin_and_label(columns_and_sample):
    columns, _ = columns_and_sample
    rows = gallery_rows(columns, 0, max_rows=2)
    kinds = np.stack([columns.split, columns.env, columns.origin, columns.label], axis=1)
    all_rows = np.concatenate(list(columns.groups.values()))
    categories, counts = np.unique(kinds[rows], axis=0, return_counts=True)
    assert categories.tolist() == np.unique(kinds[all_rows], axis=0).tolist()
    assert counts.max() == 2


def test_gallery_is_bounded_with_many_environments(columns_and_sample):
    columns, sample = columns_and_sample
    apart = dataclasses.replace(columns, env=np.arange(len(columns.env)))
    chosen = gallery._choose_rows(apart, sample, 0)
    assert np.isin(chosen, columns.groups["train"]).sum() == gallery.MAX_GRAPHS
    assert len(chosen) <= len(columns.groups) * gallery.MAX_GRAPHS


def test_sample_contains_parents_of_parents(columns_and_sample):
    """FeatX can extrapolate the features of a spliced graph."""
    columns, _ = columns_and_sample
    names = {field.name for field in dataclasses.fields(columns)} - {"parents"}
    first_rows = {name: getattr(columns, name)[:3] for name in names}
    ids = columns.graph_id[:3]
    parents = Ragged(np.array([0, 0, 1, 2]), np.array([ids[0], ids[1]]))
    short = dataclasses.replace(columns, **first_rows, parents=parents)
    assert with_ancestors(short, np.array([2])).tolist() == [0, 1, 2]
    assert with_ancestors(short, np.array([1])).tolist() == [0, 1]


def test_unknown_graph_ids_have_no_row(columns_and_sample):
    columns, _ = columns_and_sample
    assert rows_by_id(columns, np.array([10**9, int(columns.graph_id[3])])).tolist() == [-1, 3]


def checks_of(corpus, columns, sample, lineage=()):
    return {
        check.title: check for check in consistency_checks(corpus.info, columns, sample, lineage)
    }


def test_valid_splices_pass_every_check(corpus, columns_and_sample, artifacts, home):
    lineage = lineage_manifests(Store.at(home), artifacts["generate"])
    checks = checks_of(corpus, *columns_and_sample, lineage)
    assert {name: check.verdict for name, check in checks.items()
            if check.verdict != "note"}.keys() >= {
        "Labels derive from parents", "Edges exist in parents", "Graphs are connected",
        "No leakage of held-out graphs",
    }  # fmt: skip
    failed = {name for name, check in checks.items() if check.verdict == "bad"}
    assert failed == {"Causal subgraphs predict the label"}  # its extractor: one epoch
    assert [text.split(":")[1].strip() for text in artifacts["generate"].manifest.warnings
            if text.startswith("check failed")] == sorted(failed)  # fmt: skip
    origin = columns_and_sample[0].origin
    merged = int((origin == ORIGINS.index("g_inv")).sum())
    spliced = int((origin > 0).sum()) - merged
    assert checks["Labels derive from parents"].text.startswith(
        f"Labels of {spliced:,} spliced graphs"
    )
    assert f"{merged:,} causal subgraphs have merged labels" in (
        checks["Labels derive from parents"].text
    )


def test_one_wrong_label_is_detected(corpus, columns_and_sample):
    columns, sample = columns_and_sample
    y = columns.y.copy()
    row = int(np.flatnonzero(columns.origin == ORIGINS.index("g_inv_env"))[0])
    y[row] = np.roll(y[row], 1)
    wrong = dataclasses.replace(columns, y=y)
    check = checks_of(corpus, wrong, sample)["Labels derive from parents"]
    assert check.verdict == "bad"
    assert "; 1 differ." in check.text


def test_one_foreign_edge_is_detected(corpus, columns_and_sample):
    columns, sample = columns_and_sample
    table = sample.table
    row = int(np.flatnonzero(columns.origin[sample.rows] == ORIGINS.index("g_inv"))[0])
    first = int(table.edge_ptr[row])
    dst = table.dense("edge", "edge_dst").copy()
    dst[first] = table.dense("edge", "edge_src")[first]  # a loop that no Motif graph has
    changed = dataclasses.replace(sample, table=table.with_columns(edge={"edge_dst": dst}))
    check = checks_of(corpus, columns, changed)["Edges exist in parents"]
    assert check.verdict == "bad"
    assert "1 of them are not in the parent" in check.text


def test_checks_are_skipped_without_parents(artifacts, home):
    alone = run_stage(
        home, "generate", {"options": "001", "count": 30, "bridges": "none",
                           "augmented_only": True},
        {"prepare": artifacts["prepare"]},
    )  # fmt: skip
    text = report(ReportInputs(corpus=Corpus(alone), lineage=(alone.manifest,)))
    assert "The source graphs are not in this corpus, so labels cannot be recomputed." in text
    assert "as expected with <code>bridges = none</code>" in text


def test_page_has_all_sections_and_models(page, corpus):
    text = text_of(page)
    for title in ("Overview", "Lineage", "Coverage beyond the training distribution",
                  "Validity checks", "Gallery", "Classifier scores"):  # fmt: skip
        assert title in text
    assert f"{len(corpus):,}" in text
    assert corpus.artifact.manifest.digest in text
    assert "erm, gin, 2 epochs  this corpus" in re.sub(r"\s{2,}", "  ", text)
    assert "erm, gin, 2 epochs  its source" in re.sub(r"\s{2,}", "  ", text)


def test_the_same_corpus_gives_the_same_page(page, artifacts, home):
    again = home / "again.html"
    run("report", artifacts["generate"].key[:12], "-o", again, "--store", home)
    assert again.read_bytes() == page.read_bytes()


def test_page_references_no_other_files(page):
    text = page.read_text()
    assert not re.search(r'(?:src|href)="(?!#|data:)', text)
    assert "@import" not in text
    assert "url(" not in text


def test_corpus_text_is_escaped(artifacts, home):
    import msgspec

    corpus = Corpus(artifacts["prepare"])
    evil = "<script>alert(1)</script>"
    corpus.info = msgspec.structs.replace(corpus.info, name=evil, description=evil, citation=evil)
    text = report(ReportInputs(corpus=corpus, lineage=(artifacts["prepare"].manifest,)))
    assert evil not in text
    assert text.count("<script>") == 1


def test_molecules_are_drawn_with_component_and_bridge_colors(tmp_path):
    table = tmp_path / "assay.csv"
    rows = [f"{text},{int('N' in text)}" for text in SMILES[::2]]
    table.write_text("\n".join(["smiles,active", *rows]) + "\n")
    result = run("prepare", "--smiles", table, "--target", "active", "--domain", "scaffold",
               "--store", tmp_path, "--json")  # fmt: skip
    source = Store.at(tmp_path).resolve(json.loads(result.out)["key"])
    bridge = run_stage(tmp_path, "bridge", {"epochs": 1}, {"prepare": source})
    options = {"options": "001", "count": 20, "f": (2, 2)}
    artifact = run_stage(tmp_path, "generate", options, {"prepare": source, "bridge": bridge})
    text = report(
        ReportInputs(corpus=Corpus(artifact), lineage=(artifact.manifest, source.manifest))
    )
    assert text.count('<svg class="molecule"') >= 20
    for color in ("--m-w0)", "--m-w1)", "--m-bridge)"):
        assert f"var({color}" in text
    assert "#000000" not in text
    assert "New scaffolds" in text
    assert "RDKit parses the SMILES of 20 of 20 sampled spliced molecules" in text
    assert "20 of them have the atoms, charges and bonds of the graph" in text
    assert "has binary labels for active, scored by ROC-AUC" in text


@needs_browser
def test_browser_reports_no_errors_and_no_requests(page):
    loaded = open_page(page, ["document.documentElement.scrollWidth <= innerWidth"], width=390)
    assert loaded.errors == []
    assert loaded.requests == []
    assert loaded.values == [True]  # no horizontal overflow on a phone


@needs_browser
def test_filters_select_drawings(page):
    shown = "[...document.querySelectorAll('.gallery figure')].filter(f => !f.hidden)"
    select = (
        "(() => { const s = document.querySelector(`select[name=%s]`); s.value = %s;"
        " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    loaded = open_page(
        page,
        [
            f"{shown}.length",
            select % ("kind", "'whole graphs spliced'"),
            f"{shown}.length",
            f"{shown}.every(f => f.dataset.kind === 'whole graphs spliced')",
            "document.getElementById('shown').textContent",
            "[...document.querySelector('select[name=split]').options]"
            ".filter(o => !o.disabled).map(o => o.value)",
            "document.querySelector('.filters button').click()",
            f"new Promise(r => setTimeout(() => r({shown}.length), 50))",
        ],
    )
    total, _, selected, all_match, status, splits, _, after_reset = loaded.values
    assert loaded.errors == []
    assert 0 < selected < total == after_reset
    assert all_match is True
    assert status == f"{selected} of {total} drawings"
    assert splits == ["", "train"]


def test_drawn_distances_follow_path_lengths():
    src = np.array([0, 1, 2, 3])
    dst = np.array([1, 2, 3, 4])
    assert shortest_path_lengths(src, dst, 5)[0].tolist() == [0, 1, 2, 3, 4]
    positions = node_positions(src, dst, 5)
    assert np.abs(np.diff(np.diff(positions, axis=0), axis=0)).max() < 0.05  # a path is a line
    assert positions.min() >= -1e-9
    assert positions.max() <= 1 + 1e-9


@pytest.mark.parametrize("nodes", [0, 1, 2])
def test_tiny_and_disconnected_graphs_have_positions(nodes):
    no_edges = np.zeros(0, dtype=np.int64)
    positions = node_positions(no_edges, no_edges, nodes)
    assert positions.shape == (nodes, 2)
    assert np.isfinite(positions).all()


def test_leaves_of_a_star_are_drawn_apart():
    leaves = np.arange(1, 9)
    positions = node_positions(np.zeros(8, dtype=np.int64), leaves, 9)
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=-1) + np.eye(9)
    assert distances.min() > 0.1


def test_embedding_is_invariant_to_node_order(motif_table):
    table = motif_table.slice(0, 20)
    permuted = []
    for row in range(20):
        graph = table.slice(row, row + 1)
        order = np.random.default_rng(row).permutation(graph.total_nodes)
        inverse = np.argsort(order)
        permuted.append(
            graph.with_columns(
                node={name: values[order] for name, values in graph.node.items()},
                edge={name: inverse[graph.edge[name]].astype(np.int32)
                      for name in ("edge_src", "edge_dst")},
            )
        )  # fmt: skip
    from gsx.table import concat

    assert np.allclose(embed(table), embed(concat(permuted)))


def test_nearest_distances_in_blocks():
    vectors = np.random.default_rng(0).normal(size=(40, 5))
    others = np.random.default_rng(1).normal(size=(30, 5))
    expected = np.linalg.norm(vectors[:, None] - others[None], axis=-1).min(1)
    assert np.allclose(nearest_distances(vectors, others, block=7), expected)


def test_constant_vectors_can_be_projected():
    scaled, flat = project_to_plane(np.ones((5, 1)), np.ones(5, dtype=bool))
    assert np.isfinite(scaled).all()
    assert flat.shape == (5, 2)


@pytest.mark.parametrize(
    "values",
    [[3, 3, 3], [1, 2, 3], [0.1, 0.2, 5.5], [1, 10, 5748], [0, 0, 1000], [0.002, 0.1, 0.4]],
)
def test_histogram_of_any_values(values):
    drawn = histogram({"train": np.array(values)}, "nodes")
    assert "nan" not in drawn
    assert drawn.startswith("<svg")


def test_scatter_thins_large_groups_and_clips_outliers():
    near, far = np.zeros((2000, 2)), np.full((2000, 2), 1.0)
    giant = np.array([[1e6, 1e6]])
    drawn = scatter({"augmented": np.concatenate([near, far, giant])}, "plane")
    positions = re.findall(r"M([\d.]+) ([\d.]+)h0", drawn)
    assert len(positions) == 500
    assert len(set(positions)) == 3
    assert ("554.0", "6.0") in positions


def test_scatter_of_equal_points():
    assert "nan" not in scatter({"train": np.zeros((3, 2))}, "plane")


def test_ragged_parents_are_read_as_lists(columns_and_sample):
    assert isinstance(columns_and_sample[0].parents, Ragged)
