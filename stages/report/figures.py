"""Sections with charts and drawings: coverage and gallery."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from gsx.graph_svg import MAX_NODES
from gsx.ragged import Array
from gsx.stages.report import charts, gallery
from gsx.stages.report.html import figure, paragraph, table
from gsx.stages.report.report_data import ReportData
from gsx.stages.report.sample import GROUPS
from gsx.stages.report.shift_data import FeatureShift, features_to_plot

if TYPE_CHECKING:
    from gsx.stages.report.model_agreement import ModelAgreement


def coverage_section(data: ReportData) -> str:
    """Return charts and tables of sizes, degrees, features and embeddings."""
    columns = data.columns
    groups = {name: GROUPS[name] for name in columns.groups}
    size = {name: columns.nodes[rows] for name, rows in columns.groups.items()}
    degree = {
        name: columns.edges[rows] / columns.nodes[rows].clip(1)
        for name, rows in columns.groups.items()
    }
    rows = [
        (
            GROUPS[row["group"]],
            row["graphs"],
            row["min"],
            row["median"],
            row["max"],
            f"{row['below']:.1%}",
            f"{row['above']:.1%}",
            f"{row['degree']:.2f}",
        )
        for row in data.sizes
    ]
    headers = ("group", "graphs", "min nodes", "median", "max", "smaller than training",
               "larger than training", "mean degree")  # fmt: skip
    figures = [
        figure(charts.histogram(size, "nodes per graph"), _size_caption(data), title="Size"),
        figure(
            charts.histogram(degree, "edges per node, both directions"),
            "Share of the graphs of each group.",
            title="Degree",
        ),
    ]
    if data.feature_means:
        figures.append(
            figure(
                charts.histogram(data.feature_means, "mean of node features"),
                "Share of the sampled graphs of each group.",
                title="Features",
            )
        )
    figures += [*feature_figures(data.features, columns.groups), *_scaffold_bars(data)]
    return (
        charts.legend(groups)
        + f'<div class="grid">{"".join(figures)}</div>'
        + embedding_figures(data.points, data.agreement, _EMBEDDING_CAPTION)
        + distance_table(data.distances, data.agreement)
        + table(headers, rows, "Sizes and degrees per group")
    )


def _size_caption(data: ReportData) -> str:
    rows = {row["group"]: row for row in data.sizes}
    test, augmented = rows.get("ood_test"), rows.get("augmented")
    caption = "Share of the graphs of each group."
    if test and test["below"] + test["above"] > 0:
        caption += f" {test['below'] + test['above']:.0%} of OOD test graphs are outside the "
        caption += "training range" + (
            f", and {augmented['below'] + augmented['above']:.0%} of generated graphs."
            if augmented
            else "."
        )
    return caption


_EMBEDDING_CAPTION = (
    "Every point is a graph, embedded by the Weisfeiler-Lehman colors of its nodes (or by mean "
    "node features) and its size, then projected to two dimensions (PCA). At most "
    f"{charts.MAX_POINTS} graphs per group are drawn; outliers are moved to the border. No trained "
    "network is involved."
)


def embedding_figures(
    points: Mapping[str, Array], agreement: ModelAgreement | None, caption: str
) -> str:
    """Return scatter plots of the untrained embedding and of the reference model's embedding."""
    label = "positions in the plane of largest variance"
    figures = figure(charts.scatter(points, label), caption, title="Structural embedding")
    if agreement is not None:
        model_caption = (
            f"Embeddings of {agreement.name}, trained on {agreement.trained_on}: the input of its "
            "last layer, projected to two dimensions (PCA)."
        )
        figures += figure(
            charts.scatter(agreement.points, label), model_caption, title="Classifier embedding"
        )
    return f'<div class="grid planes">{figures}</div>'


def distance_table(rows: Sequence[Mapping[str, Any]], agreement: ModelAgreement | None) -> str:
    """Return a table of distances from held-out to training items, in each embedding."""
    if not rows:
        return ""
    keys = [key for key in ("to_source", "to_augmented") if key in rows[0]]
    headings = {"to_source": "nearest source item", "to_augmented": "nearest generated item"}
    spaces = [("structural", rows)]
    if agreement is not None:
        spaces.append(("classifier", agreement.distances))
    body = [
        (GROUPS[row["group"]], space, *(f"{row[key]:.2f}" for key in keys))
        for space, data in spaces
        for row in data
    ]
    headers = ("median distance from", "embedding", *(headings[key] for key in keys))
    return table(headers, body, "Distance from held-out to training items")


def feature_figures(shifts: Sequence[FeatureShift], groups: Collection[str]) -> Iterator[str]:
    """Yield a chart of the shift of every feature, and histograms of some features."""
    if not shifts:
        return
    shown = [name for name in ("augmented", "ood_test") if name in groups]
    if shown:
        rows = [
            (
                group,
                shift.label,
                shift.total_variation[group],
                f"{shift.total_variation[group]:.0%}",
            )
            for shift in shifts
            for group in shown
        ]
        caption = (
            "Total variation distance between nodes of source training and nodes of "
            + " and of ".join(GROUPS[name] for name in shown)
            + ", per feature; 0 % means equal distributions."
        )
        yield figure(charts.bars(rows), caption, title="Shift of node features")
    for shift in features_to_plot(shifts):
        chart = charts.histogram(shift.values, shift.label)
        yield figure(chart, "Share of the sampled nodes of each group.", title=shift.title)


def _scaffold_bars(data: ReportData) -> Iterator[str]:
    if not data.scaffolds:
        return
    rows = [
        (row["group"], GROUPS[row["group"]], row["unseen"], f"{row['unseen']:.0%}")
        for row in data.scaffolds
    ]
    num_train = data.scaffolds[0]["known_from"]
    caption = (
        f"Share of sampled molecules whose scaffold none of {num_train:,} training molecules has."
    )
    yield figure(charts.bars(rows), caption, title="New scaffolds")


def gallery_section(data: ReportData) -> str:
    """Return drawings of graphs with filters."""
    if not data.cards:
        return paragraph(f"No graph has {MAX_NODES} nodes or fewer, so none is drawn.")
    return gallery_with_filters(data.cards, legend(gallery.legend(data.cards)))


def legend(meanings: Mapping[str, str]) -> str:
    """Return the color key of drawings."""
    key = "".join(
        f'<li><svg viewBox="0 0 26 12" aria-hidden="true">{_swatch(name)}</svg>{escape(text)}</li>'
        for name, text in meanings.items()
    )
    return f'<ul class="legend">{key}</ul>'


def gallery_with_filters(
    cards: Sequence[gallery.Card], key: str, more: str = "", kind: str = ""
) -> str:
    """Return drawings with color key and filters; ``more`` holds further controls."""
    filters_by_name = {
        "kind": ("kind", [card.kind for card in cards]),
        "env": ("environment", [card.env for card in cards]),
        "label": ("label", [card.label for card in cards]),
        "split": ("split", [card.split for card in cards]),
    }
    selects = "".join(
        f'<label>{text}<select name="{name}"><option value="">all</option>'
        + "".join(f"<option>{escape(value)}</option>" for value in sorted(set(values)))
        + "</select></label>"
        for name, (text, values) in filters_by_name.items()
        if len(set(values)) > 1
    )
    filters = (
        f'<form class="filters" aria-label="Filter drawings">{selects}{more}'
        '<button type="reset">show all</button>'
        f'<span id="shown" class="soft" role="status">{len(cards)} drawings</span></form>'
    )
    figures = "".join(_card(card) for card in cards)
    return f'{key}{filters}<div class="gallery {kind}">{figures}</div>'


def _swatch(name: str) -> str:
    if name == "bridge":
        return '<path class="bridge" d="M1 6h24"/>'
    if name == "truth":
        dot = '<path class="node r-n" stroke-width="6" d="M13 6h0"/>'
        return f'<path class="truth" stroke-width="11" d="M13 6h0"/>{dot}'
    if name == "r-w0":
        return "".join(
            f'<path class="node r-w{n}" stroke-width="8" d="M{5 + 8 * n} 6h0"/>' for n in range(3)
        )
    return f'<path class="node {name}" stroke-width="9" d="M13 6h0"/>'


def _card(card: gallery.Card) -> str:
    data = {"kind": card.kind, "env": card.env, "label": card.label, "split": card.split}
    tags = "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())
    lines = "<br>".join(escape(line) for line in card.lines)
    return (
        f'<figure{tags}><div role="img" aria-label="{escape(card.alt)}">{card.svg}</div>'
        f"<figcaption><b>{escape(card.label)}</b>{escape(card.kind)}<br>"
        f'<span class="tag">{escape(card.split)}</span> {escape(card.env)}<br>'
        f"{lines}</figcaption></figure>"
    )
