"""What is said about a corpus to people and machines: what it is, how it was made, its limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gsx.stages.export.request import Given
from gsx.stages.task_text import task_words
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
"""Identifiers of the Hub, and those of SPDX."""
EXTRAPOLATION = "Graph Structure Extrapolation (Li, Gui, Luo, Ji, ICML 2024)"


def licence_id(text: str) -> str | None:
    """Return the identifier the Hub knows, if the licence begins with its name."""
    found = re.match(r"[A-Za-z0-9.-]+", text)
    word = found[0].lower().rstrip(".,;") if found else ""
    return word if word in _LICENCES else None


def spdx_url(text: str) -> str:
    """Return the page of the licence where it is a known one, else what was stated."""
    found = licence_id(text)
    return f"https://spdx.org/licenses/{_LICENCES[found]}.html" if found else text or "not stated"


def about(given: Given) -> str:
    """Say in a few sentences what the corpus is."""
    corpus, info = given.corpus, given.corpus.info
    items = sum((corpus.nodes or corpus.splits).values())
    what = "nodes" if corpus.nodes else "graphs"
    lines = [info.description.strip()] if info.description else []
    lines.append(
        f"{items:,} labelled {what} in the splits {', '.join(corpus.nodes or corpus.splits)}; "
        f"what shifts between them is the {info.domain}. {task_words(info)}"
    )
    if given.augmented:
        lines.append(
            f"{given.augmented:,} training graphs are synthetic: made from training graphs by "
            f"{' and '.join(_methods(given.lineage))}. The column `origin` "
            "tells which, and `provenance` where every node, edge and label of them came from"
            + ("; of g-mixup, how classes were mixed." if _mixed(given) else ".")
        )
    return " ".join(lines)


def _mixed(given: Given) -> bool:
    """Say whether some graphs are those of no parent."""
    return "g-mixup" in _methods(given.lineage)


def _methods(lineage: Sequence[Manifest]) -> list[str]:
    """Name what made synthetic graphs, the first of them first."""
    found = [
        m.config["method"] if m.stage == "augment" else EXTRAPOLATION
        for m in reversed(lineage)
        if m.stage in ("generate", "augment")
    ]
    return list(dict.fromkeys(found)) or [EXTRAPOLATION]


def made_by(given: Given) -> Iterator[str]:
    """Yield one line per step that led to the corpus, the last one first."""
    for manifest in given.lineage:
        if manifest.stage == "export":
            continue
        options = ", ".join(f"{key} = {_short(value)}" for key, value in manifest.config.items())
        made = f"**{manifest.stage}** v{manifest.stage_version}, {manifest.kind}"
        yield f"- {made} `{manifest.key[:12]}`: {options or 'no options'}"
        yield from (f"  - raw file `{name}`, SHA-256 `{sha}`" for name, sha in manifest.raw.items())


def _short(value: object) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)


def limits(given: Given) -> list[str]:
    """Return what a user should know: warnings, what was left out, what is not real."""
    manifest = given.corpus.artifact.manifest
    lines = [*manifest.warnings]
    lines += [f"{each.count:,} left out: {each.reason}" for each in manifest.dropped]
    lines += [f"{count:,} {name.replace('_', ' ')} are in the graphs"
              for name, count in manifest.summary.get("oddities", {}).items() if count]  # fmt: skip
    if given.augmented:
        lines += [
            "Synthetic graphs are for training. Scores belong to the held-out splits, which hold "
            "source graphs only.",
            *_label_lines(given.lineage),
            "Augmentation alone cannot show which features are causal; compare with training on "
            "`origin = source`.",
            *quality_lines(manifest),
            *_extractor_lines(given.lineage),
        ]
    return lines


def _label_lines(lineage: Sequence[Manifest]) -> Iterator[str]:
    """Yield what labels of synthetic graphs are worth."""
    methods = _methods(lineage)
    made = [m.summary.get("quality", {}) for m in lineage if m.stage == "generate"]
    if any(name.startswith("option_") for quality in made for name in quality):
        yield (
            "Labels of spliced graphs are those of the pieces that were found to decide them, so "
            "they are as right as the extractor; where labels were mixed they are soft."
        )
    if any("featx" in quality for quality in made):
        yield (
            "Where features were moved, labels and structure stayed: this is right where the "
            "features that the mask chose do not make the label."
        )
    for method in methods:
        if method == "g-mixup":
            yield "Graphs of g-mixup are drawn from means over two classes; their labels are soft."
        elif method != EXTRAPOLATION:
            yield (
                f"Graphs of {method} have the label of the graph they were made of, whether or not "
                "what is left of it still tells it."
            )


def _extractor_lines(lineage: Sequence[Manifest]) -> Iterator[str]:
    """Yield how well the causal pieces were found, where a truth is known."""
    for manifest in lineage:
        causal = manifest.summary.get("quality", {}).get("causal")
        if manifest.kind == "extractor" and isinstance(causal, dict) and "iou" in causal:
            yield (
                f"Causal pieces overlap the true ones by {causal['iou']:.1%} (IoU of nodes); "
                "labels of splices lean on them."
            )


def quality_lines(manifest: Manifest) -> list[str]:
    """Return the figures of the manifest that speak for or against the synthetic graphs."""
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
            many = row.get("graphs", row.get("moved_nodes"))
            lines.append(
                f"FeatX: {row['moved_features']:,} features of {many:,} "
                f"{'graphs' if 'graphs' in row else 'nodes'} were to move; "
                f"{row['unchanged']:,} of these came out as they were."
            )
        if name == "augment" and isinstance(row, dict) and "distinct" in row:
            lines.append(
                f"{row['method']}: {row['graphs']:,} graphs, {row['distinct']:,} distinct, "
                f"{row['same_as_training']:,} equal to a training graph."
            )
    return lines
