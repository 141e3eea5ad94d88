"""What the report holds graphs of labelled nodes, and replicas of them, against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gsx.schema import SPLITS
from gsx.stages.graphs.label_alignment import MIN_MATCHED, SparseEntries, align_labels
from gsx.stages.graphs.subgraphs import global_edges
from gsx.stages.report.check import Check, Verdict
from gsx.stages.report.node_data import NodeFacts, changed
from gsx.storage.artifacts.manifest import Manifest


def node_checks(facts: NodeFacts, lineage: Sequence[Manifest]) -> Iterator[Check]:
    """Yield every check that replicas allow."""
    if not facts.replicas:
        return
    kept = labels = held = nodes = 0
    columns: set[int] = set()
    for replica in facts.replicas:
        rows, places = changed(facts.features[replica.nodes], replica.features)
        columns |= set(places.tolist())
        stays = np.flatnonzero(facts.split[replica.nodes] != SPLITS.index("train"))
        kept += int(np.isin(stays, rows).sum())
        held += len(stays)
        nodes += len(replica.nodes)
        same = np.isclose(facts.y[replica.nodes], replica.y, equal_nan=True)
        labels += int((~same.all(axis=1)).sum())
    seen = f"{len(facts.replicas)} of {facts.total_replicas} replicas"
    text = f"Of {held:,} nodes that are not for training, in {seen}, {kept:,} have other features."
    yield Check("bad" if kept else "good", "Held-out nodes are as they were", f"{kept:,}", text)
    text = f"Of {nodes:,} nodes of {seen}, {labels:,} have another label than in the source."
    yield Check("bad" if labels else "good", "Labels are those of the source", f"{labels:,}", text)
    yield from _edge_checks(facts, seen)
    asked = [
        m.summary["quality"]["featx"]["moved_features"]
        for m in lineage
        if m.stage == "generate" and "featx" in m.summary.get("quality", {})
    ]
    if asked:
        text = f"{len(columns):,} features differ anywhere, of {asked[0]:,} that were to be moved."
        good = len(columns) <= asked[0]
        name = "Only chosen features moved"
        yield Check("good" if good else "bad", name, f"{len(columns):,}", text)


def class_checks(facts: NodeFacts) -> Iterator[Check]:
    """Yield whether held-out classes mean those of training, where features tell them apart."""
    train, entries = facts.split == SPLITS.index("train"), SparseEntries.of(facts.table)
    for split in ("ood_val", "ood_test"):
        held = facts.split == SPLITS.index(split)
        classes = int(facts.label.max(initial=0)) + 1
        found = align_labels(entries, facts.label, train, held, classes)
        if found is None or found.best < MIN_MATCHED:
            continue
        text = (
            f"By the nearest class mean of training, {found.agreement:.1%} of {split} are told as "
            f"their own class, and {found.best:.1%} under the numbering that fits best."
        )
        if found.differs:
            text += " The classes seem to be numbered otherwise, and scores to mean little."
        verdict: Verdict = "bad" if found.differs else "good"
        title = f"Classes of {split} are numbered as in training"
        yield Check(verdict, title, f"{found.agreement:.0%}", text)


def _edge_checks(facts: NodeFacts, seen: str) -> Iterator[Check]:
    """Hold the edges of replicas that store some against those of the source."""
    own = [replica for replica in facts.replicas if replica.edges is not None]
    if not own:
        return
    size = facts.table.total_nodes
    src, dst = global_edges(facts.table)
    known = np.unique(src * size + dst)
    new = total = 0
    for replica in own:
        src, dst = (replica.nodes[0] + ends for ends in replica.edges or ())
        code = src * size + dst
        back = np.isin(dst * size + src, code)
        new += int((~(np.isin(code, known) & back)).sum())
        total += len(code)
    text = f"Of {total:,} edges in {seen}, {new:,} are not in the source or lack their way back."
    yield Check("bad" if new else "good", "Edges are those of the source", f"{new:,}", text)
