"""The sections of the page that are pictures: how far a corpus reaches, what it looks like."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from gsx.graph_svg import MAX_NODES
from gsx.ragged import Array
from gsx.stages.report import charts, gallery
from gsx.stages.report.html import figure, paragraph, table
from gsx.stages.report.report_data import Findings
from gsx.stages.report.sample import GROUPS
from gsx.stages.report.shift_data import Shift, plots

if TYPE_CHECKING:
    from gsx.stages.report.model_agreement import Opinion


def reach_section(found: Findings) -> str:
    """Return charts and tables of sizes, degrees, features and surroundings."""
    facts = found.facts
    groups = {name: GROUPS[name] for name in facts.groups}
    size = {name: facts.nodes[rows] for name, rows in facts.groups.items()}
    degree = {
        name: facts.edges[rows] / facts.nodes[rows].clip(1) for name, rows in facts.groups.items()
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
        for row in found.sizes
    ]
    headers = ("group", "graphs", "fewest nodes", "median", "most", "smaller than training",
               "larger than training", "mean degree")  # fmt: skip
    figures = [
        figure(charts.histogram(size, "nodes per graph"), _size_words(found), title="Size"),
        figure(
            charts.histogram(degree, "edges per node, both directions"),
            "Share of the graphs of each group.",
            title="Degree",
        ),
    ]
    if found.feature_means:
        figures.append(
            figure(
                charts.histogram(found.feature_means, "mean of node features"),
                "Of sampled graphs.",
                title="Features",
            )
        )
    figures += [*feature_figures(found.features, facts.groups), *_scaffold_bars(found)]
    return (
        charts.legend(groups)
        + f'<div class="grid">{"".join(figures)}</div>'
        + planes(found.points, found.opinion, _PLANE)
        + nearness(found.near, found.opinion)
        + table(headers, rows, "Sizes and degrees of every group")
    )


def _size_words(found: Findings) -> str:
    rows = {row["group"]: row for row in found.sizes}
    test, more = rows.get("ood_test"), rows.get("augmented")
    words = "Share of the graphs of each group."
    if test and test["below"] + test["above"] > 0:
        words += f" {test['below'] + test['above']:.0%} of OOD test graphs are out of range"
        words += " of training" + (
            f", and {more['below'] + more['above']:.0%} of synthetic ones." if more else "."
        )
    return words


_PLANE = (
    "Every point is a graph: which surroundings its nodes have (Weisfeiler-Lehman colors of two "
    "steps, or means of features) and how large it is, flattened to two directions. At most "
    f"{charts.POINTS} of a group are drawn; points far out lie on the edge. No network was trained "
    "for this."
)


def planes(points: Mapping[str, Array], opinion: Opinion | None, words: str) -> str:
    """Return the plane that no network was asked for, and that of the classifier that was."""
    label = "places in the plane of most variance"
    drawn = figure(charts.scatter(points, label), words, title="Surroundings of nodes")
    if opinion is not None:
        told = (
            f"The same in the space of {opinion.name}, trained on {opinion.where}: what it "
            "computes before it tells a label, flattened to two directions (PCA)."
        )
        drawn += figure(charts.scatter(opinion.points, label), told, title="What a classifier sees")
    return f'<div class="grid planes">{drawn}</div>'


def nearness(rows: Sequence[Mapping[str, Any]], opinion: Opinion | None) -> str:
    """Return how near held-out items are to what is trained on, in the space of each plane."""
    if not rows:
        return ""
    keys = [key for key in ("to_source", "to_augmented") if key in rows[0]]
    words = {"to_source": "nearest source one", "to_augmented": "nearest synthetic one"}
    spaces = [("by surroundings", rows)]
    if opinion is not None:
        spaces.append(("to the classifier", opinion.near))
    body = [
        (GROUPS[row["group"]], space, *(f"{row[key]:.2f}" for key in keys))
        for space, found in spaces
        for row in found
    ]
    headers = ("median distance, from", "measured", *(words[key] for key in keys))
    return table(headers, body, "Distance of what is held out to what is trained on")


def feature_figures(found: Sequence[Shift], groups: Collection[str]) -> Iterator[str]:
    """Yield how far every feature shifts, and how the values of some are spread."""
    if not found:
        return
    shown = [name for name in ("augmented", "ood_test") if name in groups]
    if shown:
        rows = [
            (group, each.name.replace("_", " "), each.far[group], f"{each.far[group]:.0%}")
            for each in found
            for group in shown
        ]
        words = (
            "Total variation between the nodes of source training and those of "
            + " and of ".join(GROUPS[name] for name in shown)
            + ", per feature; 0 % means the same mix of values."
        )
        yield figure(charts.bars(rows), words, title="Shift of node features")
    for each in plots(found):
        drawn = charts.histogram(each.values, each.name)
        yield figure(
            drawn, "Share of the sampled nodes of each group.", title=each.name.capitalize()
        )


def _scaffold_bars(found: Findings) -> Iterator[str]:
    if not found.scaffolds:
        return
    rows = [
        (row["group"], GROUPS[row["group"]], row["unseen"], f"{row['unseen']:.0%}")
        for row in found.scaffolds
    ]
    known = found.scaffolds[0]["known_from"]
    words = f"Molecules whose scaffold none of {known:,} source training molecules has; of samples."
    yield figure(charts.bars(rows), words, title="New scaffolds")


def gallery_section(found: Findings) -> str:
    """Return pictures of graphs, and what chooses among them."""
    if not found.cards:
        return paragraph(f"No graph has {MAX_NODES} nodes or fewer, so none is drawn.")
    return pictures(found.cards, legend(gallery.legend(found.cards)))


def legend(words: Mapping[str, str]) -> str:
    """Return the key to the colors of pictures."""
    key = "".join(
        f'<li><svg viewBox="0 0 26 12" aria-hidden="true">{_swatch(name)}</svg>{escape(text)}</li>'
        for name, text in words.items()
    )
    return f'<ul class="legend">{key}</ul>'


def pictures(cards: Sequence[gallery.Card], key: str, more: str = "", kind: str = "") -> str:
    """Return pictures with their key and what filters them; ``more`` are further controls."""
    chosen = {
        "kind": ("kind", [card.kind for card in cards]),
        "env": ("environment", [card.env for card in cards]),
        "label": ("label", [card.label for card in cards]),
        "split": ("split", [card.split for card in cards]),
    }
    selects = "".join(
        f'<label>{text}<select name="{name}"><option value="">all</option>'
        + "".join(f"<option>{escape(value)}</option>" for value in sorted(set(values)))
        + "</select></label>"
        for name, (text, values) in chosen.items()
        if len(set(values)) > 1
    )
    filters = (
        f'<form class="filters" aria-label="Filter pictures">{selects}{more}'
        '<button type="reset">show all</button>'
        f'<span id="shown" class="soft" role="status">{len(cards)} pictures</span></form>'
    )
    drawn = "".join(_card(card) for card in cards)
    return f'{key}{filters}<div class="gallery {kind}">{drawn}</div>'


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
