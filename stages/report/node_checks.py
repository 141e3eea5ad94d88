"""Validity checks of node-labelled corpora and their replicas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gsx.schema import SPLITS
from gsx.stages.graphs.label_alignment import MIN_MATCHED, SparseEntries, align_labels
from gsx.stages.graphs.subgraphs import global_edges
from gsx.stages.report.check import Check, Verdict
from gsx.stages.report.node_data import NodeFacts, changed_entries
from gsx.storage.artifacts.manifest import Manifest


def node_checks(facts: NodeFacts, lineage: Sequence[Manifest]) -> Iterator[Check]:
    """Yield every check that applies to the replicas."""
    if not facts.replicas:
        return
    held_out_changed = relabelled = num_held_out = num_nodes = 0
    changed_columns: set[int] = set()
    for replica in facts.replicas:
        rows, columns = changed_entries(facts.features[replica.nodes], replica.features)
        changed_columns |= set(columns.tolist())
        held_out = np.flatnonzero(facts.split[replica.nodes] != SPLITS.index("train"))
        held_out_changed += int(np.isin(held_out, rows).sum())
        num_held_out += len(held_out)
        num_nodes += len(replica.nodes)
        label_kept = np.isclose(facts.y[replica.nodes], replica.y, equal_nan=True)
        relabelled += int((~label_kept.all(axis=1)).sum())
    replicas_text = f"{len(facts.replicas)} of {facts.total_replicas} replicas"
    text = (
        f"{held_out_changed:,} of {num_held_out:,} held-out nodes in {replicas_text} have other "
        "features than in the source."
    )
    yield Check(
        "bad" if held_out_changed else "good",
        "Held-out nodes are unchanged",
        f"{held_out_changed:,}",
        text,
    )
    text = (
        f"{relabelled:,} of {num_nodes:,} nodes in {replicas_text} have another label than in the "
        "source."
    )
    yield Check(
        "bad" if relabelled else "good", "Labels equal those of the source", f"{relabelled:,}", text
    )
    yield from _edge_checks(facts, replicas_text)
    selected_counts = [
        m.summary["quality"]["featx"]["moved_features"]
        for m in lineage
        if m.stage == "generate" and "featx" in m.summary.get("quality", {})
    ]
    if selected_counts:
        text = (
            f"{len(changed_columns):,} features differ from the source; {selected_counts[0]:,} "
            "were selected."
        )
        passed = len(changed_columns) <= selected_counts[0]
        title = "FeatX changes selected features only"
        yield Check("good" if passed else "bad", title, f"{len(changed_columns):,}", text)


def class_checks(facts: NodeFacts) -> Iterator[Check]:
    """Yield whether class ids of held-out splits match training, if features separate classes."""
    train, entries = facts.split == SPLITS.index("train"), SparseEntries.of(facts.table)
    for split in ("ood_val", "ood_test"):
        held_out = facts.split == SPLITS.index(split)
        classes = int(facts.label.max(initial=0)) + 1
        alignment = align_labels(entries, facts.label, train, held_out, classes)
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


def _edge_checks(facts: NodeFacts, replicas_text: str) -> Iterator[Check]:
    """Compare the edges of replicas that store edges with those of the source."""
    with_own_edges = [replica for replica in facts.replicas if replica.edges is not None]
    if not with_own_edges:
        return
    size = facts.table.total_nodes
    src, dst = global_edges(facts.table)
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
    yield Check(
        "bad" if num_foreign else "good", "Edges exist in the source", f"{num_foreign:,}", text
    )
