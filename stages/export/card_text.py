"""Text about a corpus for dataset cards and metadata: description, lineage and limitations.

The argument ``escape`` is applied to all text of the corpus, but not to the sentences around it,
which contain Markdown. Without it, the text is unchanged, for JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypedDict

from gsx.stages.export.request import ExportRequest
from gsx.stages.task_text import task_description
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora.summary import read_options, read_quality, recommendation_summary

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
Escape = Callable[[str], str]
"""Escapes text for a format, such as `markdown_text`."""


class MethodOption(TypedDict, total=False):
    """Option of `augment` that a card shows."""

    method: str


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


def corpus_description(request: ExportRequest, escape: Escape = str) -> str:
    """Return a few sentences that describe the corpus."""
    corpus, info = request.corpus, request.corpus.info
    items = sum((corpus.nodes or corpus.splits).values())
    item = "nodes" if corpus.nodes else "graphs"
    lines = [escape(info.description.strip())] if info.description else []
    lines.append(
        f"{items:,} labelled {item} in the splits {', '.join(corpus.nodes or corpus.splits)}; "
        f"the {escape(info.domain)} shifts between splits. {escape(task_description(info))}"
    )
    if request.num_augmented:
        methods = _methods(request.lineage)
        lines.append(
            f"{request.num_augmented:,} training graphs are synthetic. They were generated from "
            f"training graphs by {' and '.join(map(escape, methods))}. The column `origin` "
            "marks them, and `provenance` records the origin of their nodes, edges and labels"
            + ("; for g-mixup, the weights of the classes." if _uses_g_mixup(request) else ".")
        )
    for manifest in request.lineage:
        if manifest.kind == "recommendation":
            summary = recommendation_summary(manifest)
            lines.append(
                f"The recipe `{escape(summary['choice'])}` was recommended by validation data: "
                f"{escape(summary['reason'])}."
            )
    return " ".join(lines)


def _uses_g_mixup(request: ExportRequest) -> bool:
    """Return whether some graphs have no parents because g-mixup generated them."""
    return "g-mixup" in _methods(request.lineage)


def _methods(lineage: Sequence[Manifest]) -> list[str]:
    """Return the names of the methods that generated graphs, in order of application."""
    methods = [
        str(read_options(m, MethodOption).get("method", "")) if m.stage == "augment" else GSX_METHOD
        for m in reversed(lineage)
        if m.stage in ("generate", "augment")
    ]
    return list(dict.fromkeys(methods)) or [GSX_METHOD]


def lineage_lines(
    request: ExportRequest, escape: Escape = str, code: Escape = "`{}`".format
) -> Iterator[str]:
    """Yield one line per stage of the lineage, the last stage first; ``code`` marks file names."""
    for manifest in request.lineage:
        if manifest.stage == "export":
            continue
        options = ", ".join(
            escape(f"{key} = {_short(value)}") for key, value in manifest.config.items()
        )
        step = f"**{escape(manifest.stage)}** v{manifest.stage_version}, {manifest.kind}"
        yield f"- {step} `{manifest.key[:12]}`: {options or 'no options'}"
        yield from (
            f"  - raw file {code(name)}, SHA-256 {code(sha)}" for name, sha in manifest.raw.items()
        )


def _short(value: object) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)


def limitations(request: ExportRequest, escape: Escape = str) -> list[str]:
    """Return warnings, dropped items and caveats about synthetic graphs."""
    manifest = request.corpus.artifact.manifest
    oddities = request.corpus.summary["oddities"]
    lines = [escape(warning) for warning in manifest.warnings]
    lines += [f"{drop.count:,} left out: {escape(drop.reason)}" for drop in manifest.dropped]
    lines += [f"{count:,} {escape(name.replace('_', ' '))} in the graphs"
              for name, count in oddities.items() if count]  # fmt: skip
    if request.num_augmented:
        lines += [
            "Synthetic graphs are for training only. Evaluate on the held-out splits, which "
            "contain source graphs only.",
            *_label_lines(request.lineage, escape),
            "Augmentation alone cannot show which features are causal; compare with training on "
            "`origin = source`.",
            *map(escape, quality_lines(manifest)),
            *_extractor_lines(request.lineage),
        ]
    return lines


def _label_lines(lineage: Sequence[Manifest], escape: Escape = str) -> Iterator[str]:
    """Yield caveats about the labels of synthetic graphs."""
    methods = _methods(lineage)
    qualities = [read_quality(m) for m in lineage if m.kind == "corpus"]
    if any(name.startswith("option_") for quality in qualities for name in quality):
        yield (
            "Spliced graphs have the labels of their extracted causal subgraphs, so these labels "
            "are only as accurate as the extractor. Averaged labels are soft."
        )
    if any("featx" in quality for quality in qualities):
        yield (
            "Graphs with extrapolated features keep label and structure. This is correct if the "
            "features selected by the mask do not cause the label."
        )
    for method in methods:
        if method == "g-mixup":
            yield "Graphs of g-mixup are sampled from mixtures of two classes and have soft labels."
        elif method != GSX_METHOD:
            yield (
                f"Graphs of {escape(method)} have the label of their parent, even if the "
                "perturbation removed the nodes, edges or features that determine it."
            )


def _extractor_lines(lineage: Sequence[Manifest]) -> Iterator[str]:
    """Yield the accuracy of causal subgraphs if the dataset has a ground truth."""
    for manifest in lineage:
        if manifest.kind != "extractor":
            continue
        causal = read_quality(manifest).get("causal", {})
        if causal.get("iou") is not None:
            yield (
                f"Extracted causal subgraphs have a node IoU of {causal['iou']:.1%} with the "
                "ground truth; labels of spliced graphs depend on them."
            )


def quality_lines(manifest: Manifest) -> list[str]:
    """Return quality statistics of the synthetic graphs from a manifest."""
    lines = []
    for name, row in read_quality(manifest).items():
        if name.startswith("option_"):
            lines.append(
                f"Option {name.removeprefix('option_')}: {row['graphs']:,} graphs, "
                f"{row['distinct']:,} distinct, {row['larger_than_training']:.1%} larger and "
                f"{row['smaller_than_training']:.1%} smaller than any training graph, "
                f"{row['overlap_with_held_out']:,} equal to a held-out graph."
            )
        if name == "featx" and {"extrapolated_features", "unchanged"} <= row.keys():
            num_items = row.get("graphs", row.get("extrapolated_nodes", 0))
            lines.append(
                f"FeatX: {row['extrapolated_features']:,} features of {num_items:,} "
                f"{'graphs' if 'graphs' in row else 'nodes'} were extrapolated; "
                f"{row['unchanged']:,} are unchanged."
            )
        if name == "augment" and {"method", "graphs", "distinct", "same_as_training"} <= row.keys():
            lines.append(
                f"{row['method']}: {row['graphs']:,} graphs, {row['distinct']:,} distinct, "
                f"{row['same_as_training']:,} equal to a training graph."
            )
    return lines
