"""Validity checks of node-labelled corpora and their replicas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gsx.schema import SPLITS
from gsx.stages.augmented.check import Check, Verdict
from gsx.stages.graphs.label_alignment import MIN_MATCHED, SparseEntries, align_labels
from gsx.stages.graphs.subgraphs import global_edges
from gsx.stages.report.node_data import NodeColumns, changed_entries
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora.summary import read_quality


def node_checks(columns: NodeColumns, lineage: Sequence[Manifest]) -> Iterator[Check]:
    """Yield every check that applies to the replicas."""
    if not columns.replicas:
        return
    held_out_changed = relabelled = num_held_out = num_nodes = 0
    changed_features: set[int] = set()
    for replica in columns.replicas:
        rows, features = changed_entries(columns.features[replica.nodes], replica.features)
        changed_features |= set(features.tolist())
        held_out = np.flatnonzero(columns.split[replica.nodes] != SPLITS.index("train"))
        held_out_changed += int(np.isin(held_out, rows).sum())
        num_held_out += len(held_out)
        num_nodes += len(replica.nodes)
        label_kept = np.isclose(columns.y[replica.nodes], replica.y, equal_nan=True)
        relabelled += int((~label_kept.all(axis=1)).sum())
    replicas_text = f"{len(columns.replicas)} of {columns.total_replicas} replicas"
    text = (
        f"{held_out_changed:,} of {num_held_out:,} held-out nodes in {replicas_text} have other "
        "features than in the source."
    )
    yield Check(
        "bad" if held_out_changed else "good",
        "Held-out nodes are unchanged",
        f"{held_out_changed:,}",
        text,
        by_construction=True,
    )
    text = (
        f"{relabelled:,} of {num_nodes:,} nodes in {replicas_text} have another label than in the "
        "source."
    )
    verdict: Verdict = "bad" if relabelled else "good"
    title = "Labels equal those of the source"
    yield Check(verdict, title, f"{relabelled:,}", text, by_construction=True)
    yield from _edge_checks(columns, replicas_text)
    selected_counts = [
        quality["featx"]["extrapolated_features"]
        for quality in map(read_quality, lineage)
        if "extrapolated_features" in quality.get("featx", {})
    ]
    if selected_counts:
        text = (
            f"{len(changed_features):,} features differ from the source; {selected_counts[0]:,} "
            "were selected."
        )
        verdict = "good" if len(changed_features) <= selected_counts[0] else "bad"
        title = "FeatX changes selected features only"
        yield Check(verdict, title, f"{len(changed_features):,}", text, by_construction=True)


def class_checks(columns: NodeColumns) -> Iterator[Check]:
    """Yield whether class ids of held-out splits match training, if features separate classes."""
    train, entries = columns.split == SPLITS.index("train"), SparseEntries.of(columns.table)
    for split in ("ood_val", "ood_test"):
        held_out = columns.split == SPLITS.index(split)
        classes = int(columns.label.max(initial=0)) + 1
        alignment = align_labels(entries, columns.label, train, held_out, classes)
        if alignment is None or alignment.best < MIN_MATCHED:
            continue
        text = (
            f"A nearest-mean classifier of training nodes assigns {alignment.agreement:.1%} of "
            f"{split} to their own class, and {alignment.best:.1%} under the best permutation of "
            "class ids."
        )
        if alignment.differs:
            text += (
                " The class ids appear to be permuted, so scores on this split are not meaningful."
            )
        verdict: Verdict = "bad" if alignment.differs else "good"
        title = f"Class ids of {split} match training"
        yield Check(verdict, title, f"{alignment.agreement:.0%}", text)


def _edge_checks(columns: NodeColumns, replicas_text: str) -> Iterator[Check]:
    """Compare the edges of replicas that store edges with those of the source."""
    with_own_edges = [replica for replica in columns.replicas if replica.edges is not None]
    if not with_own_edges:
        return
    size = columns.table.total_nodes
    src, dst = global_edges(columns.table)
    source_codes = np.unique(src * size + dst)
    num_foreign = num_edges = 0
    for replica in with_own_edges:
        src, dst = (replica.nodes[0] + ends for ends in replica.edges or ())
        code = src * size + dst
        has_reverse = np.isin(dst * size + src, code)
        num_foreign += int((~(np.isin(code, source_codes) & has_reverse)).sum())
        num_edges += len(code)
    text = (
        f"{num_foreign:,} of {num_edges:,} edges in {replicas_text} are not in the source or lack "
        "the reverse edge."
    )
    verdict: Verdict = "bad" if num_foreign else "good"
    title = "Edges exist in the source"
    yield Check(verdict, title, f"{num_foreign:,}", text, by_construction=True)
