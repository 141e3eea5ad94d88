"""The page of a corpus that labels nodes: what moved, how far, and what nodes look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

import numpy as np

from gsx.stages.report import charts
from gsx.stages.report.figures import feature_figures, nearness, pictures, planes
from gsx.stages.report.gallery import ORIGIN_WORDS
from gsx.stages.report.html import figure, paragraph, table, tile
from gsx.stages.report.model_sections import learning_section
from gsx.stages.report.node_data import lost_edges, moved_counts
from gsx.stages.report.node_gallery import KINDS
from gsx.stages.report.page import (
    checks_tile,
    framed,
    made_section,
    truth_section,
    what_section,
)
from gsx.stages.report.report_data import NodeFindings
from gsx.stages.report.sample import GROUPS

NAMED = 12
"""Classes or environments that a key names."""
_PLANE = (
    "Every point is a node: its features and the mean of its neighbors' (many features along "
    "random directions), and how many neighbors it has, flattened to two directions. At most "
    f"{charts.POINTS} of a group are drawn; points far out lie on the edge. No network was trained "
    "for this."
)


def node_page(found: NodeFindings) -> str:
    """Return the page."""
    sections = [
        ("what", "What it is", what_section(found.corpus)),
        ("made", "How it was made", made_section(found.lineage)),
        ("reach", "How far it reaches", _reach(found)),
        ("truth", "Is it still true?", truth_section(found)),
        ("looks", "What it looks like", _looks(found)),
        ("learning", "What it does for learning", learning_section(found.models)),
    ]
    return framed(found.corpus, list(_tiles(found)), sections)


def _tiles(found: NodeFindings) -> Iterator[str]:
    facts, info = found.facts, found.corpus.info
    yield tile(f"{facts.table.total_nodes:,}", "nodes in the source")
    yield tile(info.domain, "is what shifts")
    if facts.total_replicas:
        yield tile(f"{facts.total_replicas:,}", f"replicas: {_kinds(found)}")
    yield tile(f"{info.num_features:,}", "features per node")
    yield tile(str(len(info.environments)), "environments")
    yield from checks_tile(found.checks)


def _kinds(found: NodeFindings) -> str:
    """Return in words what replicas differ in."""
    return ", ".join(dict.fromkeys(ORIGIN_WORDS[each.origin] for each in found.facts.replicas))


def _reach(found: NodeFindings) -> str:
    facts = found.facts
    groups = {name: words for name, words in GROUPS.items() if name in found.sampled}
    degree = {name: facts.degree[nodes] for name, nodes in facts.groups.items()}
    figures = []
    if degree:
        words = "Share of the nodes of each group, as in the source."
        figures.append(figure(charts.histogram(degree, "edges per node"), words, title="Degree"))
    moved = moved_counts(facts)
    if len(moved):
        drawn = charts.histogram({"augmented": moved}, "features that came out differently")
        words = f"Share of nodes that were moved; {float(moved.mean()):,.1f} features on average."
        figures.append(figure(drawn, words, title="Features moved"))
    lost = lost_edges(facts)
    if len(lost):
        drawn = charts.histogram({"augmented": lost}, "edges dropped per node")
        words = f"Share of training nodes; {float(lost.mean()):,.2f} edges on average."
        figures.append(figure(drawn, words, title="Edges dropped"))
    figures += feature_figures(found.features, found.sampled)
    rows = [
        (
            GROUPS[name],
            len(nodes),
            found.sampled[name],
            float(np.median(facts.degree[nodes])),
            int(facts.degree[nodes].max()),
        )
        for name, nodes in facts.groups.items()
    ]
    headers = ("group", "nodes", "looked at", "median degree", "highest")
    return (
        charts.legend(groups)
        + f'<div class="grid">{"".join(figures)}</div>'
        + (planes(found.points, found.opinion, _PLANE) if found.points else "")
        + nearness(found.near, found.opinion)
        + table(headers, rows, "Nodes of every group")
    )


def _looks(found: NodeFindings) -> str:
    if not found.cards:
        return paragraph("No node is for training or held out, so none is drawn.")
    info = found.corpus.info
    envs = {environment.id: environment.name for environment in info.environments}
    words = (
        "Each picture has one node in the middle, ringed, with some neighbors and neighbors of "
        "these."
    )
    keys = ""
    select = ""
    if info.task == "classification":
        keys += _key("label", dict(enumerate(info.outputs)), "without a label")
        select = (
            '<label>color<select name="colors"><option value="label">classes</option>'
            '<option value="env">environments</option></select></label>'
        )
    keys += _key("env", envs, "hidden environment", hidden=bool(select))
    kind = "by-label" if select else "by-env"
    return paragraph(words) + pictures(found.cards, keys, select, kind)


def _key(name: str, words: Mapping[int, str], none: str, *, hidden: bool = False) -> str:
    """Return what the colors mean; they begin again where there are more than colors."""
    shown = list(words.items())[:NAMED]
    rows = [(f"k{number % KINDS}", text) for number, text in shown]
    more = len(words) - len(shown)
    items = "".join(
        f'<li><svg viewBox="0 0 26 12" aria-hidden="true"><path class="node {kind}" '
        f'stroke-width="9" d="M13 6h0"/></svg>{escape(text)}</li>'
        for kind, text in [*rows, ("r-n", none)]
    )
    items += f"<li>and {more} more</li>" if more > 0 else ""
    state = " hidden" if hidden else ""
    return f'<ul class="legend" data-colors="{name}"{state}>{items}</ul>'
