"""The report as a page: what it is, how it was made, how far it reaches, whether it is true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from gsx import __version__
from gsx.columns import SPLITS
from gsx.drawing import LARGEST
from gsx.ragged import Array
from gsx.stages.reporting import charts, gallery
from gsx.stages.reporting.markup import document, figure, paragraph, section, table, tile
from gsx.stages.reporting.models import Trained
from gsx.stages.reporting.sample import GROUPS, Facts
from gsx.stages.reporting.truth import Check
from gsx.storage.corpus import Corpus
from gsx.storage.manifest import Manifest

ORIGIN_WORDS = {
    "source": "source graph",
    "g_inv": "causal piece alone",
    "g_inv_env": "causal piece in other surroundings",
    "g_whole": "whole graphs joined",
    "featx": "features extrapolated",
}
_MARKS = {"good": "✓", "bad": "✗", "note": "!"}
_SAID = {"good": "passed", "bad": "failed", "note": "to know"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Findings:
    """All that the page shows of a corpus of graphs."""

    corpus: Corpus
    lineage: tuple[Manifest, ...]
    facts: Facts
    sizes: Sequence[Mapping[str, Any]]
    points: Mapping[str, Array]
    near: Sequence[Mapping[str, Any]]
    features: Sequence[Mapping[str, Any]]
    feature_means: Mapping[str, Array]
    scaffolds: Sequence[Mapping[str, Any]]
    checks: tuple[Check, ...]
    cards: Sequence[gallery.Card]
    models: Sequence[Trained]


def graph_page(found: Findings) -> str:
    """Return the page of a corpus that labels graphs."""
    sections = [
        ("what", "What it is", _what(found.corpus)),
        ("made", "How it was made", _made(found.lineage)),
        ("reach", "How far it reaches", _reach(found)),
        ("truth", "Is it still true?", _truth(found.checks)),
        ("looks", "What it looks like", _gallery(found)),
        ("learning", "What it does for learning", _learning(found.models)),
    ]
    return _page(found.corpus, list(_graph_tiles(found)), sections)


def node_page(corpus: Corpus, lineage: Sequence[Manifest], models: Sequence[Trained]) -> str:
    """Return the page of a corpus that labels nodes."""
    nodes = sum(corpus.nodes.values())
    tiles = [
        tile(f"{nodes:,}", "labelled nodes"),
        tile(f"{len(corpus):,}", "graphs"),
        tile(corpus.info.domain, "is what shifts"),
        tile(str(len(corpus.info.environments)), "environments"),
    ]
    sections = [
        ("what", "What it is", _what(corpus)),
        ("made", "How it was made", _made(lineage)),
        ("learning", "What it does for learning", _learning(models)),
    ]
    return _page(corpus, tiles, sections)


def _page(corpus: Corpus, tiles: Sequence[str], sections: Sequence[tuple[str, str, str]]) -> str:
    info, manifest = corpus.info, corpus.artifact.manifest
    kept = [each for each in sections if each[2]]
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in kept)
    header = (
        f"<h1>{escape(info.name)}</h1>{paragraph(info.description, 'lead')}"
        f'<ul class="tiles">{"".join(tiles)}</ul><nav aria-label="Sections">{links}</nav>'
    )
    main = "".join(section(name, title, inside) for name, title, inside in kept)
    licence = escape(info.licence or "no licence stated")
    footer = (
        f"<p>Corpus <code>{manifest.key}</code>, content <code>{manifest.digest}</code>. "
        f"Licence: {licence}. {escape(info.citation)}</p>"
        f"<p>Written by gsx {escape(__version__)}: <code>gsx report {manifest.key[:12]}</code>. "
        "This page fetches nothing; what it shows was read from the corpus.</p>"
    )
    return document(f"{info.name} · gsx report", header, main, footer)


def _graph_tiles(found: Findings) -> Iterator[str]:
    facts, rows = found.facts, {row["group"]: row for row in found.sizes}
    yield tile(f"{len(facts.nodes):,}", "graphs")
    yield tile(found.corpus.info.domain, "is what shifts")
    if "augmented" in rows:
        yield tile(f"{rows['augmented']['graphs']:,}", "are synthetic, for training")
    if "train" in rows:
        yield tile(f"{rows['train']['min']} to {rows['train']['max']}", "nodes in source training")
    if "augmented" in rows:
        more = rows["augmented"]["below"] + rows["augmented"]["above"]
        yield tile(f"{more:.0%}", "of synthetic graphs leave that range")
    judged = [check for check in found.checks if check.verdict != "note"]
    if judged:
        passed = sum(check.verdict == "good" for check in judged)
        yield tile(f"{passed} of {len(judged)}", "checks passed")


def _what(corpus: Corpus) -> str:
    info, summary = corpus.info, corpus.artifact.manifest.summary
    items = "nodes" if corpus.nodes else "graphs"
    said = (
        f"The task is {info.task} of {', '.join(info.outputs[:6])}"
        f"{' …' if len(info.outputs) > 6 else ''}, scored by {info.metric}. What shifts between "
        f"training and the OOD splits is the {info.domain}."
    )
    names = {environment.id: environment for environment in info.environments}
    groups = summary.get("node_groups") if corpus.nodes else summary.get("groups", ())
    ordered = sorted(
        groups or (), key=lambda group: (SPLITS.index(group["split"]), group["env_id"])
    )
    rows = [_group_row(group, names, sized=not corpus.nodes) for group in ordered]
    sized = ["nodes per graph"] if not corpus.nodes else []
    headers = ["split", "environment", "origin", items, *sized, "labels"]
    hidden = "Environments of validation and test items are hidden on purpose."
    warned = "".join(paragraph(f"Warning: {text}") for text in corpus.artifact.manifest.warnings)
    dropped = "".join(
        paragraph(f"{each.count:,} left out: {each.reason}", "soft")
        for each in corpus.artifact.manifest.dropped
    )
    shown = table(headers, rows, "Splits and environments")
    return paragraph(said) + shown + paragraph(hidden, "soft") + warned + dropped


def _group_row(group: Mapping[str, Any], names: Mapping[int, Any], *, sized: bool) -> list[object]:
    known = names.get(group["env_id"])
    return [
        group["split"],
        "hidden" if known is None else f"{known.id} · {known.name}",
        "source graph" if known is None else ORIGIN_WORDS.get(known.origin, known.origin),
        group["count"],
        *([f"{group['min_nodes']} to {group['max_nodes']}"] if sized else []),
        " / ".join(f"{count:,}" for count in group["labels"]),
    ]


def _made(lineage: Sequence[Manifest]) -> str:
    steps = []
    for manifest in _in_order(lineage):
        options = "".join(
            f"<span><code>{escape(str(key))}</code> {escape(_short(value))}</span>"
            for key, value in manifest.config.items()
        )
        raw = "".join(
            f'<p class="soft">raw file <code>{escape(name)}</code>, SHA-256 '
            f"<code>{escape(sha)}</code></p>"
            for name, sha in manifest.raw.items()
        )
        count = sum(manifest.counts.values())
        steps.append(
            f"<li><b>{escape(manifest.stage)}</b> made the {escape(manifest.kind)} "
            f"<code>{manifest.key[:12]}</code> ({count:,} items){raw}"
            f'<details><summary>options</summary><div class="options">{options}</div></details>'
            "</li>"
        )
    said = "Each step names the content of what it read, so the same options give the same bytes."
    return paragraph(said) + f'<ol class="steps">{"".join(steps)}</ol>'


def _in_order(lineage: Sequence[Manifest]) -> list[Manifest]:
    """Return manifests so that whatever was read comes before what it was read for."""
    waiting, found = list(reversed(lineage)), list[Manifest]()
    while waiting:
        left = {manifest.digest for manifest in waiting}
        ready = [m for m in waiting if not {p.digest for p in m.parents} & (left - {m.digest})]
        found += ready or waiting
        waiting = [manifest for manifest in waiting if manifest not in found]
    return found


def _short(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _reach(found: Findings) -> str:
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
    figures += [*_feature_bars(found), *_scaffold_bars(found)]
    plane = charts.scatter(found.points, "graphs in the plane of most variance")
    figures.append(figure(plane, _PLANE, title="Surroundings of nodes", wide=True))
    return (
        charts.legend(groups)
        + f'<div class="grid">{"".join(figures)}</div>'
        + _near(found.near)
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
    "steps, or means of features) and how large it is, flattened to two directions; points far out "
    "are cut off. No network was trained for this."
)


def _near(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return how near held-out graphs are to what is trained on, in the space of the plane."""
    if not rows:
        return ""
    synthetic = ["nearest synthetic graph"] if "to_augmented" in rows[0] else []
    headers = ["median distance in that space, from", "nearest source graph", *synthetic]
    body = [
        (GROUPS[row["group"]], f"{row['to_source']:.2f}",
         *([f"{row['to_augmented']:.2f}"] if synthetic else []))
        for row in rows
    ]  # fmt: skip
    return table(headers, body, "Distance of held-out graphs to training graphs")


def _feature_bars(found: Findings) -> Iterator[str]:
    if not found.features:
        return
    groups = [name for name in ("augmented", "ood_test") if name in found.facts.groups]
    rows = [
        (group, row["name"].replace("_", " "), row["far"][group], f"{row['far'][group]:.0%}")
        for row in found.features
        for group in groups
    ]
    words = (
        "Total variation between the nodes of source training and those of "
        + " and of ".join(GROUPS[name] for name in groups)
        + ", per feature; 0 % means the same mix of values."
    )
    yield figure(charts.bars(rows), words, title="Shift of node features")


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


def _truth(checks: Sequence[Check]) -> str:
    if not checks:
        return paragraph("Nothing in this corpus was made from other graphs; nothing to check.")
    items = "".join(
        f'<li class="{check.verdict}"><span class="mark" aria-hidden="true">'
        f"{_MARKS[check.verdict]}</span><h3><span>{escape(check.title)}</span>"
        f'<b><span class="unseen">{_SAID[check.verdict]}: </span>{escape(check.figure)}</b></h3>'
        f"<p>{escape(check.text)}</p></li>"
        for check in checks
    )
    return f'<ul class="checks">{items}</ul>'


def _gallery(found: Findings) -> str:
    if not found.cards:
        return paragraph(f"No graph has {LARGEST} nodes or fewer, so none is drawn.")
    chosen = {
        "origin": ("kind", [ORIGIN_WORDS.get(card.origin, card.origin) for card in found.cards]),
        "env": ("environment", [card.env for card in found.cards]),
        "label": ("label", [card.label for card in found.cards]),
        "split": ("split", [card.split for card in found.cards]),
    }
    selects = "".join(
        f'<label>{text}<select name="{name}"><option value="">all</option>'
        + "".join(f"<option>{escape(value)}</option>" for value in sorted(set(values)))
        + "</select></label>"
        for name, (text, values) in chosen.items()
        if len(set(values)) > 1
    )
    filters = (
        f'<form class="filters" aria-label="Filter pictures">{selects}'
        '<button type="reset">show all</button>'
        f'<span id="shown" class="soft" role="status">{len(found.cards)} pictures</span></form>'
    )
    pictures = "".join(_card(card) for card in found.cards)
    key = "".join(
        f'<li><svg viewBox="0 0 26 12" aria-hidden="true">{_swatch(name)}</svg>{escape(text)}</li>'
        for name, text in gallery.legend(found.cards).items()
    )
    return f'<ul class="legend">{key}</ul>{filters}<div class="gallery">{pictures}</div>'


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
    kind = ORIGIN_WORDS.get(card.origin, card.origin)
    shown = ", ".join(str(number) for number in card.parents[:4])
    more = " …" if len(card.parents) > 4 else ""
    parents = f"<br>from graphs {shown}{more}" if card.parents else ""
    data = {"origin": kind, "env": card.env, "label": card.label, "split": card.split}
    tags = "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())
    label = f"Graph {card.graph_id}, {kind}, {card.nodes} nodes, label {card.label}"
    return (
        f'<figure{tags}><div role="img" aria-label="{escape(label)}">{card.svg}</div>'
        f"<figcaption><b>{escape(card.label)}</b>{escape(kind)}<br>"
        f'<span class="tag">{escape(card.split)}</span> {escape(card.env)}<br>'
        f"#{card.graph_id} · {card.nodes} nodes{parents}</figcaption></figure>"
    )


def _learning(models: Sequence[Trained]) -> str:
    if not models:
        return ""
    splits = [name for name in ("id_test", "ood_val", "ood_test")
              if any(name in score for each in models for score in each.scores)]  # fmt: skip
    rows = [
        (each.name, each.where, len(each.scores), *(each.text(name) for name in splits))
        for each in models
    ]
    headers = ("classifier", "trained on", "seeds", *(GROUPS[name] for name in splits))
    words = (
        f"Scores ({models[0].metric}) of the classifiers found in the store, at the epoch that "
        "OOD validation selects; mean ± standard deviation over seeds, best validation first."
    )
    figures = []
    for where in dict.fromkeys(each.where for each in models):
        first = next(each for each in models if each.where == where)
        lines = {
            name: [float(row[name]) for row in first.curves]
            for name in ("id_test", "ood_val", "ood_test")
            if first.curves and name in first.curves[0]
        }
        if lines:
            chart = charts.curves(lines, f"{first.metric} over epochs")
            figures.append(figure(chart, f"{first.name}; one seed.", title=f"Trained on {where}"))
    key = charts.legend({name: GROUPS[name] for name in splits})
    return (
        paragraph(words)
        + table(headers, rows, "Scores of classifiers")
        + (f'{key}<div class="grid">{"".join(figures)}</div>' if figures else "")
    )
