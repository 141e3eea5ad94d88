"""Report page of a node-labelled corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

import numpy as np

from gsx.plurals import counted
from gsx.ragged import Ints
from gsx.stages.report import charts
from gsx.stages.report.figures import (
    distance_table,
    embedding_figures,
    feature_figures,
    gallery_with_filters,
)
from gsx.stages.report.gallery import ORIGIN_NAMES
from gsx.stages.report.html import figure, paragraph, table, tile
from gsx.stages.report.model_sections import scores_section
from gsx.stages.report.node_data import changed_feature_counts, dropped_edge_counts
from gsx.stages.report.node_gallery import NUM_COLORS
from gsx.stages.report.page import (
    checks_section,
    checks_tile,
    lineage_section,
    overview_section,
    page_frame,
)
from gsx.stages.report.recommendation_section import recommendation_section
from gsx.stages.report.report_data import NodeReportData
from gsx.stages.report.sample import GROUPS

MAX_NAMED = 12
"""Largest number of classes or environments that a color key lists."""
_EMBEDDING_CAPTION = (
    "Every point is a node, embedded by its features, the mean features of its neighbors (wide "
    "features by random projection) and its degree, then projected to two dimensions (PCA). At "
    f"most {charts.MAX_POINTS} nodes per group are drawn; outliers are moved to the border. No "
    "trained network is involved."
)


def node_page(data: NodeReportData) -> str:
    """Return the page as HTML."""
    sections = [
        ("overview", "Overview", overview_section(data.corpus)),
        ("lineage", "Lineage", lineage_section(data.lineage)),
        ("recommendation", "Recommendation", recommendation_section(data.lineage)),
        ("coverage", "Coverage beyond the training distribution", _coverage(data)),
        ("checks", "Validity checks", checks_section(data)),
        ("gallery", "Gallery", _gallery(data)),
        ("scores", "Classifier scores", scores_section(data.models)),
    ]
    return page_frame(data.corpus, list(_tiles(data)), sections)


def _tiles(data: NodeReportData) -> Iterator[str]:
    columns, info = data.columns, data.corpus.info
    yield tile(f"{columns.table.total_nodes:,}", "source nodes")
    yield tile(info.domain, "domain that shifts")
    if columns.total_replicas:
        yield tile(f"{columns.total_replicas:,}", f"replicas: {_replica_kinds(data)}")
    yield tile(f"{info.num_features:,}", "features per node")
    yield tile(str(len(info.environments)), "environments")
    yield from checks_tile(data.checks)


def _replica_kinds(data: NodeReportData) -> str:
    """Return the names of the origins of the replicas."""
    return ", ".join(
        dict.fromkeys(ORIGIN_NAMES[replica.origin] for replica in data.columns.replicas)
    )


def _changed_features(changed: Ints) -> str:
    """Return a histogram of changed features per node, or their number if it is constant."""
    if changed.min() == changed.max():
        number = counted(int(changed[0]), "feature")
        return figure("", f"{number} in every changed node.", title="Changed features")
    chart = charts.histogram({"augmented": changed}, "changed features per node")
    caption = f"Share of the changed nodes; {float(changed.mean()):,.1f} features on average."
    return figure(chart, caption, title="Changed features")


def _coverage(data: NodeReportData) -> str:
    columns = data.columns
    groups = {name: caption for name, caption in GROUPS.items() if name in data.sampled}
    degree = {name: columns.degree[nodes] for name, nodes in columns.groups.items()}
    figures = []
    if degree:
        caption = "Share of the nodes of each group, in the source graphs."
        figures.append(figure(charts.histogram(degree, "edges per node"), caption, title="Degree"))
    changed = changed_feature_counts(columns)
    if len(changed):
        figures.append(_changed_features(changed))
    dropped = dropped_edge_counts(columns)
    if len(dropped):
        chart = charts.histogram({"augmented": dropped}, "edges dropped per node")
        caption = f"Share of training nodes; {float(dropped.mean()):,.2f} edges on average."
        figures.append(figure(chart, caption, title="Dropped edges"))
    figures += feature_figures(data.features, data.sampled)
    rows = [
        (
            GROUPS[name],
            len(nodes),
            data.sampled[name],
            float(np.median(columns.degree[nodes])),
            int(columns.degree[nodes].max()),
        )
        for name, nodes in columns.groups.items()
    ]
    headers = ("group", "nodes", "sampled", "median degree", "max degree")
    return (
        charts.legend(groups)
        + f'<div class="grid">{"".join(figures)}</div>'
        + (
            embedding_figures(data.points, data.agreement, _EMBEDDING_CAPTION)
            if data.points
            else ""
        )
        + distance_table(data.distances, data.agreement)
        + table(headers, rows, "Nodes per group")
    )


def _gallery(data: NodeReportData) -> str:
    if not data.cards:
        return paragraph("No node belongs to a training or held-out split, so none is drawn.")
    info = data.corpus.info
    envs = {environment.id: environment.name for environment in info.environments}
    text = (
        "Each drawing shows one node, marked by a ring, with some of its neighbors and their "
        "neighbors."
    )
    keys = ""
    select = ""
    if info.task == "classification":
        keys += _color_key("label", dict(enumerate(info.outputs)), "no label")
        select = (
            '<label>color<select name="colors"><option value="label">classes</option>'
            '<option value="env">environments</option></select></label>'
        )
    keys += _color_key("env", envs, "unknown environment", hidden=bool(select))
    kind = "by-label" if select else "by-env"
    return paragraph(text) + gallery_with_filters(data.cards, keys, select, kind)


def _color_key(name: str, names: Mapping[int, str], none: str, *, hidden: bool = False) -> str:
    """Return the color key; colors repeat if there are more names than colors."""
    shown = list(names.items())[:MAX_NAMED]
    rows = [(f"k{number % NUM_COLORS}", text) for number, text in shown]
    more = len(names) - len(shown)
    items = "".join(
        f'<li><svg viewBox="0 0 26 12" aria-hidden="true"><path class="node {kind}" '
        f'stroke-width="9" d="M13 6h0"/></svg>{escape(text)}</li>'
        for kind, text in [*rows, ("r-n", none)]
    )
    items += f"<li>and {more} more</li>" if more > 0 else ""
    state = " hidden" if hidden else ""
    return f'<ul class="legend" data-colors="{name}"{state}>{items}</ul>'
