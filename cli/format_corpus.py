"""Format splits and environments of a corpus as tables, with the labels of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gsx.cli.format_labels import format_counts, format_target, format_targets, label_note
from gsx.cli.output import format_table, wrap

if TYPE_CHECKING:
    from gsx.schema import CorpusInfo
    from gsx.storage.artifacts.store import Artifact
    from gsx.storage.corpora.target_statistics import TargetGroup

MAX_GRAPHS = 1_000_000
"""Graphs up to which label statistics are computed for display."""
_HEADERS = ("SPLIT", "ENV", "ENVIRONMENT", "GRAPHS", "NODES", "MEAN", "LABELS")
_NODE_HEADERS = ("SPLIT", "ENV", "ENVIRONMENT", "LABELLED NODES", "LABELS")


def corpus_targets(artifact: Artifact) -> list[TargetGroup]:
    """Return statistics of numbers and of several tasks; empty for other targets.

    They are read from the shards, so that a remote or very large corpus has none here.
    """
    from gsx.storage.corpora.corpus import Corpus
    from gsx.storage.corpora.target_statistics import has_target_values, target_groups

    if artifact.manifest.kind != "corpus" or artifact.location.local is None:
        return []
    corpus = Corpus(artifact)
    if not has_target_values(corpus.info) or len(corpus) > MAX_GRAPHS:
        return []
    return target_groups(corpus)


def format_corpus(artifact: Artifact) -> list[str]:
    """Return the tables of splits, environments and labels of a corpus."""
    from gsx.errors import ArtifactError
    from gsx.storage.corpora.corpus import Corpus

    summary = artifact.manifest.summary
    info = Corpus(artifact).info
    targets = {(row["split"], row["env_id"]): row["targets"] for row in corpus_targets(artifact)}
    try:
        names = {row["id"]: row["name"] for row in summary["environments"]}
        rows = []
        for group in summary.get("node_groups", summary["groups"]):
            env = group["env_id"]
            sizes = _sizes(group) if info.level == "graph" else ()
            labels = _labels(info, group, targets)
            rows.append((group["split"], env if env >= 0 else None, names.get(env, "unknown"),
                         group["count"], *sizes, *labels))  # fmt: skip
        oddities = [_oddity(name, count) for name, count in summary["oddities"].items() if count]
        copies = _replicas(summary["groups"]) if info.level == "node" else []
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"the summary of {artifact.location.url} is not that of a corpus: {error!r}"
        ) from error
    headers = _HEADERS if info.level == "graph" else _NODE_HEADERS
    shown = len(rows[0]) if rows else len(headers)
    lines = format_table(rows, headers[:shown], wrapped="ENVIRONMENT")
    lines += _format_labels(info, targets, complete=shown == len(headers))
    lines += copies
    return [*lines, ", ".join(oddities)] if oddities else lines


def _oddity(name: str, count: int) -> str:
    """Return a count such as ``2 graphs without edges``."""
    text = name.replace("_", " ")
    return f"{count:,} {text.replace('graphs', 'graph', 1) if count == 1 else text}"


def _sizes(group: dict[str, Any]) -> tuple[str, float]:
    """Return the range of sizes and their mean."""
    mean = group["nodes"] / max(group["count"], 1)
    return f"{group['min_nodes']}-{group['max_nodes']}", mean


def _labels(
    info: CorpusInfo, group: dict[str, Any], targets: dict[tuple[str, int], Any]
) -> list[str]:
    """Return the cell of labels; none if they have a table of their own, or are unknown."""
    from gsx.storage.corpora.target_statistics import has_target_values

    if not has_target_values(info):
        return [format_counts(group["labels"])]
    if len(info.outputs) > 1 or not targets:
        return []
    values = targets.get((group["split"], group["env_id"]))
    return [format_target(values[0]) if values else "-"]


def _format_labels(
    info: CorpusInfo, targets: dict[tuple[str, int], Any], *, complete: bool
) -> list[str]:
    """Return what the labels mean, and the table of several targets."""
    from gsx.storage.corpora.target_statistics import merge_environments

    if not complete and not targets:
        return ["labels: `gsx describe` computes their statistics"]
    table = format_targets(merge_environments(targets))
    note = wrap(label_note(info.task, info.outputs, f"{info.level}s")).split("\n")
    return [*(["", *table] if table else []), *note]


def _replicas(groups: list[dict[str, Any]]) -> list[str]:
    """Return a line about the graphs of a corpus of labelled nodes."""
    graphs = sum(group["count"] for group in groups)
    nodes = max((group["max_nodes"] for group in groups), default=0)
    if graphs < 2:
        return [f"one graph of {nodes:,} nodes"]
    return [f"{graphs:,} graphs of {nodes:,} nodes: the source and {graphs - 1:,} replicas"]
