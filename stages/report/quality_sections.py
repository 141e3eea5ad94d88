"""Quality of the extractor, bridge model, feature mask and generation options of a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, TypedDict

from gsx.stages.featx_defaults import FEATX_DEFAULTS
from gsx.stages.report.html import paragraph, table
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora.summary import mask_summary, read_options, read_quality

Quality = Mapping[str, Any]


class FeatxOptions(TypedDict, total=False):
    """Options of `generate` that the page shows."""

    featx_features: str
    featx_direction: str
    featx_shape: float
    featx_scale: float
    featx_rounds: int
    featx_partner: str
    featx_ends: str


class SpliceOptions(TypedDict, total=False):
    """Further options of `generate` that the page shows."""

    label_conflicts: str


_PREDICTION_HEADERS = {
    "subgraph": "label from causal subgraph",
    "rest": "from remaining nodes",
    "whole": "from whole graph",
}
_OPTION_NAMES = {
    "option_1": "1: causal subgraphs only",
    "option_2": "2: causal and environmental subgraphs",
    "option_3": "3: whole graphs",
}


def quality_section(lineage: Sequence[Manifest], names: Mapping[int, str]) -> str:
    """Return the quality statistics of the lineage; ``names`` maps environment ids to names."""
    sections: list[str] = []
    for manifest in lineage:
        render = _SECTIONS.get(manifest.kind)
        quality = read_quality(manifest) if render is not None else {}
        if quality and render is not None:
            sections += render(manifest, quality, names)
    return "".join(sections)


def _options(manifest: Manifest, quality: Quality, _: Mapping[int, str]) -> Iterator[str]:
    rows = [
        (
            _OPTION_NAMES.get(name, name),
            row["graphs"],
            row["distinct"],
            row.get("label_conflicts", "-"),
            f"{row['min_nodes']} to {row['max_nodes']}",
            row["overlap_with_held_out"],
            sum(row["rejected"].values()),
            "; ".join(row["rejected"]) or "-",
        )
        for name, row in quality.items()
        if name.startswith("option_")
    ]
    if rows:
        headers = ("option", "graphs", "distinct", "label conflicts", "nodes",
                   "equal to held-out graphs", "rejected draws", "reasons")  # fmt: skip
        yield _with_title("Generation options", table(headers, rows, "Options"))
        yield from _causal_subgraphs(manifest, quality.get("option_1", {}))
    featx = quality.get("featx")
    if isinstance(featx, dict):
        html = table(("setting or statistic", "value"), _featx_rows(manifest, featx), "FeatX")
        yield _with_title("Feature extrapolation (FeatX)", html)


def _causal_subgraphs(manifest: Manifest, option: Quality) -> Iterator[str]:
    """Yield a paragraph about the causal subgraphs that became graphs of their own."""
    counts = option.get("causal_subgraphs")
    if not isinstance(counts, dict):
        return
    rule = read_options(manifest, SpliceOptions).get("label_conflicts", "keep")
    outcome = {
        "merge": "all of them got the mean label",
        "reject": "all of them were left out",
        "keep": "all of them kept their labels",
    }
    yield paragraph(
        f"Option 1: {counts['subgraphs']:,} training graphs have a causal subgraph and a label; "
        f"{counts['too_small']:,} subgraphs are too small to become a graph; the others are "
        f"{counts['distinct']:,} distinct graphs. {counts['in_conflict']:,} subgraphs "
        f"({counts['distinct_in_conflict']:,} distinct) equal one with another label; "
        f"{outcome.get(rule, outcome['keep'])}."
    )


def _featx_rows(manifest: Manifest, featx: Quality) -> Iterator[tuple[str, str]]:
    """Yield the settings, then the statistics of the generated features."""
    config: Quality = {**FEATX_DEFAULTS, **read_options(manifest, FeatxOptions)}
    selected = config["featx_features"] == "selected"
    selection = "selected by the mask" if selected else "all varying features"
    yield "features", f"{featx.get('extrapolated_features', 0):,}, {selection}"
    if config["featx_direction"] == "interpolate":
        yield "direction", "towards a partner (interpolation)"
        yield "step size", "λ uniform between 0 and 1"
    else:
        shape, scale = config["featx_shape"], config["featx_scale"]
        yield "direction", "away from a partner (extrapolation)"
        yield "step size", f"λ ~ Gamma({shape:g}, {scale:g}), {shape * scale:g} on average"
    yield "partners per sample", f"{config['featx_rounds']:,}"
    if config["featx_partner"] == "ranked":
        yield "partner node", "node of equal rank"
    if config["featx_ends"] == "mirror":
        yield "outside the feature range", "reflected"
    if "replicas" in featx:
        yield (
            "samples",
            f"{featx.get('extrapolated_nodes', 0):,} nodes in {featx['replicas']:,} replicas",
        )
    else:
        of = ", ".join(f"{origin} {count:,}" for origin, count in featx.get("of", {}).items())
        yield "samples", f"{featx.get('graphs', 0):,} graphs ({of})"
    yield "unchanged samples", f"{featx.get('unchanged', 0):,}"
    if "same_as_training" in featx:
        yield "equal to a training graph", f"{featx['same_as_training']:,}"


def _extractor(_: Manifest, quality: Quality, names: Mapping[int, str]) -> Iterator[str]:
    columns: dict[str, tuple[Quality, Sequence[Quality]]] = {}
    causal, predicted = quality.get("causal"), quality.get("held_out_scores")
    if isinstance(causal, dict) and "iou" in causal:
        columns |= {
            header: _column(causal, causal.get("per_environment", ()), name)
            for name, header in (("iou", "IoU with the ground truth"), ("exact", "exact subgraphs"),
                                ("node_auc", "node ROC-AUC"))
        }  # fmt: skip
    if isinstance(predicted, dict):
        columns |= {
            header: _column(predicted, quality.get("held_out_scores_per_environment", ()), name)
            for name, header in _PREDICTION_HEADERS.items()
        }
    scaffold = quality.get("scaffold")
    if isinstance(scaffold, dict):
        columns |= {
            header: _column(scaffold, scaffold.get("per_environment", ()), name)
            for name, header in (("causal_share", "atoms in causal subgraphs"),
                                ("share_of_causal", "scaffold atoms in causal subgraphs"),
                                ("share_of_environmental", "in environmental subgraphs"))
        }  # fmt: skip
    if not columns:
        return
    comparison = quality.get("held_out_comparison")
    if isinstance(comparison, dict) and comparison.get("measure") == "r2":
        # A few held-out graphs per environment determine no R², which is not a fraction.
        columns = {
            f"{name} (R²)" if name in _PREDICTION_HEADERS.values() else name: (
                (overall, ()) if name in _PREDICTION_HEADERS.values() else (overall, rows)
            )
            for name, (overall, rows) in columns.items()
        }
    formats = [_number if name.endswith("(R²)") else _percent for name in columns]
    ids = sorted({row["env_id"] for _, rows in columns.values() for row in rows})
    overall = [values["value"] for values, _ in columns.values()]
    rows = [("all", *(form(value) for form, value in zip(formats, overall, strict=True)))]
    for id_ in ids:
        values = [
            next((row["value"] for row in per_env if row["env_id"] == id_), None)
            for _, per_env in columns.values()
        ]
        cells = (form(value) for form, value in zip(formats, values, strict=True))
        rows.append((f"{id_} · {names.get(id_, '')}", *cells))
    html = table(("environment", *columns), rows, "Quality of causal subgraphs")
    yield _with_title("Causal subgraph extraction", html)


def _column(
    overall: Quality, per_env: Sequence[Quality], name: str
) -> tuple[Quality, list[Quality]]:
    rows: list[Quality] = [{"env_id": row["env_id"], "value": row.get(name)} for row in per_env]
    return {"value": overall.get(name)}, rows


def _bridge(_: Manifest, quality: Quality, __: Mapping[int, str]) -> Iterator[str]:
    rows = [
        ("Bridge prediction, ROC-AUC", _percent(quality.get("edge_auc"))),
        (
            "Bridge prediction among nodes of equal degree, ROC-AUC",
            _percent(quality.get("edge_auc_same_degrees")),
        ),
    ]
    count = quality.get("count")
    if isinstance(count, dict):
        rows += [
            ("Number of bridges, accuracy", _percent(count.get("accuracy"))),
            (
                "Number of bridges, accuracy of the most frequent number",
                _percent(count.get("most_frequent")),
            ),
        ]
    available = [row for row in rows if row[1] != "-"]
    if available:
        html = table(("metric on held-out cuts", "value"), available, "Quality of bridges")
        yield _with_title("Bridge model", html)


def _mask(manifest: Manifest, quality: Quality, _: Mapping[int, str]) -> Iterator[str]:
    text = mask_summary(manifest).get("description", "")
    truth = quality.get("truth")
    if isinstance(truth, dict):
        text += (
            f" Against the ground truth of this dataset: precision "
            f"{_percent(truth.get('precision'))}, recall {_percent(truth.get('recall'))}."
        )
    if text:
        yield _with_title("Feature mask", paragraph(text))


_SECTIONS = {"corpus": _options, "extractor": _extractor, "bridge": _bridge, "mask": _mask}


def _with_title(title: str, inside: str) -> str:
    return f'<h3 class="part">{escape(title)}</h3>{inside}'


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
