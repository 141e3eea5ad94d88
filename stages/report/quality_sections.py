"""How good the parts are that a corpus was made with: pieces, bridges, masks, options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from gsx.stages.featx_defaults import FEATX_DEFAULTS
from gsx.stages.report.html import paragraph, table
from gsx.storage.artifacts.manifest import Manifest

Quality = Mapping[str, Any]
_OPTIONS = {
    "option_1": "1: causal pieces alone",
    "option_2": "2: causal pieces in other surroundings",
    "option_3": "3: whole graphs joined",
}


def quality_section(lineage: Sequence[Manifest], names: Mapping[int, str]) -> str:
    """Return what the manifests of a corpus and of its parts measured; ``names`` are of envs."""
    parts: list[str] = []
    for manifest in lineage:
        quality = manifest.summary.get("quality")
        tell = _TELLERS.get(manifest.stage)
        if isinstance(quality, dict) and tell is not None:
            parts += tell(manifest, quality, names)
    return "".join(parts)


def _options(manifest: Manifest, quality: Quality, _: Mapping[int, str]) -> Iterator[str]:
    rows = [
        (
            _OPTIONS.get(name, name),
            row["graphs"],
            row["distinct"],
            f"{row['min_nodes']} to {row['max_nodes']}",
            row["overlap_with_held_out"],
            sum(row["refused"].values()),
            "; ".join(row["refused"]) or "-",
        )
        for name, row in quality.items()
        if name.startswith("option_")
    ]
    if rows:
        headers = ("option", "graphs", "distinct", "nodes", "equal to a held-out one",
                   "draws refused", "because")  # fmt: skip
        yield _titled("What each option made", table(headers, rows, "Options"))
    featx = quality.get("featx")
    if isinstance(featx, dict):
        shown = table(("of moved features", "value"), _moved(manifest, featx), "FeatX")
        yield _titled("How features were moved", shown)


def _moved(manifest: Manifest, featx: Quality) -> Iterator[tuple[str, str]]:
    """Say what was asked for, then what became of it."""
    config: Quality = {**FEATX_DEFAULTS, **manifest.config}
    some = config["featx_features"] == "selected"
    which = "those the mask calls non-causal" if some else "all that vary"
    yield "which", f"{featx['moved_features']:,}, {which}"
    if config["featx_direction"] == "interpolate":
        yield "direction", "towards a partner (interpolation)"
        yield "how far", "λ uniform between 0 and 1 of the way"
    else:
        shape, scale = config["featx_shape"], config["featx_scale"]
        yield "direction", "away from a partner (extrapolation)"
        yield "how far", f"λ ~ Gamma({shape:g}, {scale:g}), {shape * scale:g} on average"
    yield "partners of a sample", f"{config['featx_rounds']:,}"
    if config["featx_partner"] == "ranked":
        yield "away from", "the partner's node of equal rank"
    if config["featx_ends"] == "mirror":
        yield "at the ends of a domain", "back, as from a mirror"
    if "replicas" in featx:
        yield "samples", f"{featx['moved_nodes']:,} nodes in {featx['replicas']:,} replicas"
    else:
        of = ", ".join(f"{origin} {count:,}" for origin, count in featx["of"].items())
        yield "samples", f"{featx['graphs']:,} graphs ({of})"
    yield "came out as they were", f"{featx['unchanged']:,}"
    if "same_as_training" in featx:
        yield "came out as a training graph", f"{featx['same_as_training']:,}"


def _extractor(_: Manifest, quality: Quality, names: Mapping[int, str]) -> Iterator[str]:
    columns: dict[str, tuple[Quality, Sequence[Quality]]] = {}
    causal, told = quality.get("causal"), quality.get("label_told_held_out")
    if isinstance(causal, dict) and "iou" in causal:
        columns |= {
            words: _column(causal, causal.get("per_environment", ()), name)
            for name, words in (("iou", "overlap with the truth (IoU)"), ("exact", "exact pieces"),
                                ("node_auc", "node AUC"))
        }  # fmt: skip
    if isinstance(told, dict):
        columns |= {
            words: _column(told, quality.get("label_told_per_environment", ()), name)
            for name, words in (("piece", "label told by the piece"), ("rest", "by the rest"),
                                ("whole", "by all"))
        }  # fmt: skip
    scaffold = quality.get("scaffold")
    if isinstance(scaffold, dict):
        columns |= {
            words: _column(scaffold, scaffold.get("per_environment", ()), name)
            for name, words in (("causal_share", "atoms in causal pieces"),
                                ("share_of_causal", "scaffold in causal pieces"),
                                ("share_of_environmental", "in environmental ones"))
        }  # fmt: skip
    if not columns:
        return
    ids = sorted({row["env_id"] for _, rows in columns.values() for row in rows})
    rows = [("all", *(_share(every["value"]) for every, _ in columns.values()))]
    for id_ in ids:
        values = [
            next((row["value"] for row in per_env if row["env_id"] == id_), None)
            for _, per_env in columns.values()
        ]
        rows.append((f"{id_} · {names.get(id_, '')}", *map(_share, values)))
    shown = table(("environment", *columns), rows, "Quality of pieces")
    yield _titled("How well causal pieces were found", shown)


def _column(every: Quality, per_env: Sequence[Quality], name: str) -> tuple[Quality, list[Quality]]:
    rows: list[Quality] = [{"env_id": row["env_id"], "value": row.get(name)} for row in per_env]
    return {"value": every.get(name)}, rows


def _bridge(_: Manifest, quality: Quality, __: Mapping[int, str]) -> Iterator[str]:
    rows = [
        ("bridges told from other pairs (AUC)", _share(quality.get("edge_auc"))),
        ("the same among nodes of equal degrees", _share(quality.get("edge_auc_same_degrees"))),
    ]
    count = quality.get("count")
    if isinstance(count, dict):
        rows += [
            ("number of bridges told right", _share(count.get("accuracy"))),
            ("by always saying the most frequent", _share(count.get("most_frequent"))),
        ]
    known = [row for row in rows if row[1] != "-"]
    if known:
        shown = table(("of held-out cuts", "value"), known, "Quality of bridges")
        yield _titled("How well bridges were learned", shown)


def _mask(manifest: Manifest, quality: Quality, _: Mapping[int, str]) -> Iterator[str]:
    said = str(manifest.summary.get("words", ""))
    truth = quality.get("truth")
    if isinstance(truth, dict):
        said += (
            f" Against what is true of this dataset: precision {_share(truth.get('precision'))}, "
            f"recall {_share(truth.get('recall'))}."
        )
    if said:
        yield _titled("Which features the mask chose", paragraph(said))


_TELLERS = {"generate": _options, "extract": _extractor, "bridge": _bridge, "mask": _mask}


def _titled(title: str, inside: str) -> str:
    return f'<h3 class="part">{escape(title)}</h3>{inside}'


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
