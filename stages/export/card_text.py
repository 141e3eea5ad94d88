"""Text about a corpus for dataset cards and metadata: description, lineage and limitations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gsx.stages.export.request import ExportRequest
from gsx.stages.task_text import task_description
from gsx.storage.artifacts.manifest import Manifest

_LICENCES = {
    "mit": "MIT",
    "apache-2.0": "Apache-2.0",
    "bsd-3-clause": "BSD-3-Clause",
    "cc0-1.0": "CC0-1.0",
    "cc-by-4.0": "CC-BY-4.0",
    "cc-by-sa-4.0": "CC-BY-SA-4.0",
    "gpl-3.0": "GPL-3.0-only",
    "odc-by": "ODC-By-1.0",
}
"""Licence identifier of the Hugging Face Hub → SPDX identifier."""
GSX_METHOD = "Graph Structure Extrapolation (Li, Gui, Luo, Ji, ICML 2024)"


def hub_licence_id(text: str) -> str | None:
    """Return the Hub's identifier of a licence that starts with one, else None."""
    match = re.match(r"[A-Za-z0-9.-]+", text)
    word = match[0].lower().rstrip(".,;") if match else ""
    return word if word in _LICENCES else None


def spdx_url(text: str) -> str:
    """Return the SPDX page of a known licence, else the text itself."""
    identifier = hub_licence_id(text)
    return (
        f"https://spdx.org/licenses/{_LICENCES[identifier]}.html"
        if identifier
        else text or "not stated"
    )


def corpus_description(request: ExportRequest) -> str:
    """Return a few sentences that describe the corpus."""
    corpus, info = request.corpus, request.corpus.info
    items = sum((corpus.nodes or corpus.splits).values())
    item = "nodes" if corpus.nodes else "graphs"
    lines = [info.description.strip()] if info.description else []
    lines.append(
        f"{items:,} labelled {item} in the splits {', '.join(corpus.nodes or corpus.splits)}; "
        f"what shifts between them is the {info.domain}. {task_description(info)}"
    )
    if request.num_augmented:
        lines.append(
            f"{request.num_augmented:,} training graphs are synthetic: made from training graphs "
            f"by {' and '.join(_methods(request.lineage))}. The column `origin` "
            "tells which, and `provenance` where every node, edge and label of them came from"
            + ("; of g-mixup, how classes were mixed." if _uses_g_mixup(request) else ".")
        )
    return " ".join(lines)


def _uses_g_mixup(request: ExportRequest) -> bool:
    """Return whether some graphs have no parents because g-mixup generated them."""
    return "g-mixup" in _methods(request.lineage)


def _methods(lineage: Sequence[Manifest]) -> list[str]:
    """Return the names of the methods that generated graphs, in order of application."""
    methods = [
        m.config["method"] if m.stage == "augment" else GSX_METHOD
        for m in reversed(lineage)
        if m.stage in ("generate", "augment")
    ]
    return list(dict.fromkeys(methods)) or [GSX_METHOD]


def lineage_lines(request: ExportRequest) -> Iterator[str]:
    """Yield one line per stage of the lineage, the last stage first."""
    for manifest in request.lineage:
        if manifest.stage == "export":
            continue
        options = ", ".join(f"{key} = {_short(value)}" for key, value in manifest.config.items())
        step = f"**{manifest.stage}** v{manifest.stage_version}, {manifest.kind}"
        yield f"- {step} `{manifest.key[:12]}`: {options or 'no options'}"
        yield from (f"  - raw file `{name}`, SHA-256 `{sha}`" for name, sha in manifest.raw.items())


def _short(value: object) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)


def limitations(request: ExportRequest) -> list[str]:
    """Return warnings, dropped items and caveats about synthetic graphs."""
    manifest = request.corpus.artifact.manifest
    lines = [*manifest.warnings]
    lines += [f"{drop.count:,} left out: {drop.reason}" for drop in manifest.dropped]
    lines += [f"{count:,} {name.replace('_', ' ')} are in the graphs"
              for name, count in manifest.summary.get("oddities", {}).items() if count]  # fmt: skip
    if request.num_augmented:
        lines += [
            "Synthetic graphs are for training. Scores belong to the held-out splits, which hold "
            "source graphs only.",
            *_label_lines(request.lineage),
            "Augmentation alone cannot show which features are causal; compare with training on "
            "`origin = source`.",
            *quality_lines(manifest),
            *_extractor_lines(request.lineage),
        ]
    return lines


def _label_lines(lineage: Sequence[Manifest]) -> Iterator[str]:
    """Yield caveats about the labels of synthetic graphs."""
    methods = _methods(lineage)
    qualities = [m.summary.get("quality", {}) for m in lineage if m.stage == "generate"]
    if any(name.startswith("option_") for quality in qualities for name in quality):
        yield (
            "Labels of spliced graphs are those of the pieces that were found to decide them, so "
            "they are as right as the extractor; where labels were mixed they are soft."
        )
    if any("featx" in quality for quality in qualities):
        yield (
            "Where features were moved, labels and structure stayed: this is right where the "
            "features that the mask chose do not make the label."
        )
    for method in methods:
        if method == "g-mixup":
            yield "Graphs of g-mixup are drawn from means over two classes; their labels are soft."
        elif method != GSX_METHOD:
            yield (
                f"Graphs of {method} have the label of the graph they were made of, whether or not "
                "what is left of it still tells it."
            )


def _extractor_lines(lineage: Sequence[Manifest]) -> Iterator[str]:
    """Yield the accuracy of causal subgraphs if the dataset has a ground truth."""
    for manifest in lineage:
        causal = manifest.summary.get("quality", {}).get("causal")
        if manifest.kind == "extractor" and isinstance(causal, dict) and "iou" in causal:
            yield (
                f"Causal pieces overlap the true ones by {causal['iou']:.1%} (IoU of nodes); "
                "labels of splices lean on them."
            )


def quality_lines(manifest: Manifest) -> list[str]:
    """Return quality statistics of the synthetic graphs from a manifest."""
    quality = manifest.summary.get("quality", {})
    lines = []
    for name, row in quality.items() if isinstance(quality, dict) else ():
        if name.startswith("option_") and isinstance(row, dict):
            lines.append(
                f"Option {name.removeprefix('option_')}: {row['graphs']:,} graphs, "
                f"{row['distinct']:,} distinct, {row['larger_than_training']:.1%} larger and "
                f"{row['smaller_than_training']:.1%} smaller than any training graph, "
                f"{row['overlap_with_held_out']:,} equal to a held-out graph."
            )
        if name == "featx" and isinstance(row, dict):
            num_items = row.get("graphs", row.get("moved_nodes"))
            lines.append(
                f"FeatX: {row['moved_features']:,} features of {num_items:,} "
                f"{'graphs' if 'graphs' in row else 'nodes'} were to move; "
                f"{row['unchanged']:,} of these came out as they were."
            )
        if name == "augment" and isinstance(row, dict) and "distinct" in row:
            lines.append(
                f"{row['method']}: {row['graphs']:,} graphs, {row['distinct']:,} distinct, "
                f"{row['same_as_training']:,} equal to a training graph."
            )
    return lines
