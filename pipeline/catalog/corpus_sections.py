"""Sections of a corpus page: card, splits, sizes and environments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from gsx.pipeline.catalog.html import details, prose, table
from gsx.plurals import counted
from gsx.schema import SPLITS
from gsx.stages.export.card_text import corpus_description, limitations
from gsx.stages.export.request import ExportRequest
from gsx.stages.report.html import paragraph
from gsx.stages.task_text import label_header
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.summary import read_quality

MAX_ROWS = 100
"""Largest number of environments or columns in a table."""
_ROW, _LEFT, _RIGHT, _WIDTH = 24, 100, 80, 620
_COLORS = {"train": "train", "generated": "augmented", "id_val": "id_test", "id_test": "id_test"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogRequest(ExportRequest):
    """A corpus whose card is written from its manifest, without reading graphs."""

    @property
    def num_augmented(self) -> int:
        """Number of graphs that are not source graphs."""
        return num_generated(self.corpus, self.lineage)


@dataclass(frozen=True, slots=True)
class SizeRow:
    """Graphs of a split, or the generated graphs of the training split."""

    name: str
    count: int
    low: int
    mean: float
    high: int


def num_generated(corpus: Corpus, lineage: Sequence[Manifest]) -> int:
    """Return the number of generated graphs and replicas, from manifests alone.

    Without the manifests of ancestors, only graphs in environments of their own are counted.
    """
    generated = _generated_environments(corpus)
    in_own = sum(row["count"] for row in corpus.summary["groups"] if row["env_id"] in generated)
    return max(in_own, _recorded(corpus.artifact.manifest, lineage))


def _recorded(manifest: Manifest, lineage: Sequence[Manifest]) -> int:
    """Return the number of generated graphs that a corpus and its ancestors recorded."""
    own = sum(
        int(row.get("replicas", row.get("graphs", 0)))
        for name, row in read_quality(manifest).items()
        if name.startswith("option_") or name in ("featx", "augment")
    )
    if manifest.config.get("augmented_only"):
        return own
    digests = {parent.digest for parent in manifest.parents if parent.kind == "corpus"}
    before = [ancestor for ancestor in lineage if ancestor.digest in digests]
    others = [ancestor for ancestor in lineage if ancestor.digest not in digests]
    if own and manifest.stage not in ("generate", "augment"):
        return own  # a copy in another format repeats the figures
    return own + sum(_recorded(ancestor, others) for ancestor in before)


def _generated_environments(corpus: Corpus) -> set[int]:
    """Return the ids of environments that hold generated graphs only."""
    return {
        row["id"] for row in corpus.summary["environments"] if "source" not in row["origin"].split()
    }


def card_section(corpus: Corpus, lineage: Sequence[Manifest]) -> str:
    """Return the text of the dataset card: description, limitations, licence and citation."""
    request = CatalogRequest(corpus=corpus, lineage=tuple(lineage), date="")
    info = corpus.info
    items = "".join(f"<li>{prose(line)}</li>" for line in limitations(request))
    licence = info.licence or "No licence given."
    citation = info.citation or "No citation given; cite the content digest below."
    return (
        f"<p>{prose(corpus_description(request))}</p>"
        + (details("Limitations and warnings", f"<ul>{items}</ul>") if items else "")
        + paragraph(f"Licence: {licence}", "soft")
        + paragraph(f"Citation: {citation}", "soft")
        + _columns(corpus)
    )


def _columns(corpus: Corpus) -> str:
    columns = corpus.info.columns
    rows = [
        (column.name, column.axis, "category" if column.vocabulary else column.dtype, column.doc)
        for column in columns[:MAX_ROWS]
    ]
    headers = ("column", "per", "type", "meaning")
    return details(f"{len(columns)} columns", table(headers, rows, "Columns"))


def splits_section(corpus: Corpus) -> str:
    """Return a table of splits, a chart of sizes, and a table of environments."""
    info, nodes = corpus.info, bool(corpus.nodes)
    items, names = "nodes" if nodes else "graphs", label_header(info)
    groups: Sequence[Mapping[str, Any]] = corpus.summary.get("node_groups", [])
    groups = groups if nodes else corpus.summary["groups"]
    rows = []
    for split in [name for name in SPLITS if any(g["split"] == name for g in groups)]:
        same = [group for group in groups if group["split"] == split]
        labels = " / ".join(
            f"{sum(counts):,}" for counts in zip(*(g["labels"] for g in same), strict=True)
        )
        envs = len({group["env_id"] for group in same if group["env_id"] >= 0})
        count = sum(group["count"] for group in same)
        rows.append([split, count, envs or "hidden", *([labels] if names else [])])
    headers = ["split", items, "environments", *([names] if names else [])]
    sizes = [] if nodes else list(size_rows(corpus))
    chart = (
        f"<figure><h3>Nodes per graph</h3>{range_chart(sizes)}<figcaption>Smallest, mean and "
        "largest number of nodes of the graphs of each group.</figcaption></figure>"
        if sizes
        else ""
    )
    return table(headers, rows, "Splits") + chart + _environments(corpus, items)


def size_rows(corpus: Corpus) -> Iterator[SizeRow]:
    """Yield sizes of the source graphs of every split, and of generated training graphs."""
    generated = _generated_environments(corpus)
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for group in corpus.summary["groups"]:
        key = "generated" if group["env_id"] in generated else group["split"]
        by_name.setdefault(key, []).append(group)
    for name in ("train", "generated", *SPLITS[1:]):
        groups = [group for group in by_name.get(name, []) if group["count"]]
        if groups:
            count = sum(group["count"] for group in groups)
            yield SizeRow(
                name=name,
                count=count,
                low=min(group["min_nodes"] for group in groups),
                mean=sum(group["nodes"] for group in groups) / count,
                high=max(group["max_nodes"] for group in groups),
            )


def range_chart(rows: Sequence[SizeRow]) -> str:
    """Draw one line per group from the smallest to the largest size, with a dot at the mean."""
    top = max(row.high for row in rows) or 1

    def x(value: float) -> float:
        return _LEFT + value / top * (_WIDTH - _LEFT - _RIGHT)

    parts = []
    for number, row in enumerate(rows):
        y = _ROW * (number + 0.5)
        color = _COLORS.get(row.name, row.name)
        parts.append(
            f'<text x="{_LEFT - 10}" y="{y + 3.5:g}" text-anchor="end">{row.name}</text>'
            f'<line class="g-{color}" style="stroke-dasharray:none" stroke-width="3" '
            f'x1="{x(row.low):.1f}" x2="{x(row.high):.1f}" y1="{y:g}" y2="{y:g}"/>'
            f'<circle cx="{x(row.mean):.1f}" cy="{y:g}" r="4" fill="var(--g-{color})"/>'
            f'<text x="{x(row.high) + 8:.1f}" y="{y + 3.5:g}">{row.low} to {row.high}</text>'
        )
    label = "; ".join(f"{r.name}: {r.low} to {r.high}, mean {r.mean:.1f}" for r in rows)
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_ROW * len(rows)}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _environments(corpus: Corpus, items: str) -> str:
    """Return a folded table of the environments."""
    environments = corpus.summary["environments"]
    if not environments:
        return ""
    rows = [
        (row["id"], row["name"], row["origin"], row.get("count")) for row in environments[:MAX_ROWS]
    ]
    headers = ("id", "environment", "origin", f"training {items}")
    more = len(environments) - len(rows)
    note = paragraph(f"{more:,} more environments are in the manifest.", "soft") if more else ""
    title = counted(len(environments), "environment")
    return details(title, table(headers, rows, "Environments"), note)
