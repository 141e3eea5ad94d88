"""Validity checks of generated graphs: labels, edges, connectivity, chemistry and leakage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gsx.ragged import Ints, decode_texts, row_indices
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.stages.augmented.check import TOLERANCE, Check, Verdict
from gsx.stages.augmented.label_checks import (
    causal_conflict_check,
    causal_prediction_check,
    label_conflict_check,
)
from gsx.stages.augmented.label_rules import Sizes, size_slope, spliced_labels
from gsx.stages.chem.features import is_molecular
from gsx.stages.graphs.subgraphs import global_edges, is_connected
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.stages.report.featx_checks import featx_checks
from gsx.stages.report.sample import PERTURBED, GraphColumns, Sample, rows_by_id
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.corpora.summary import read_quality
from gsx.table import GraphTable

SPLICED = ("g_inv", "g_inv_env", "g_whole")
WHOLE_GRAPHS = ORIGINS.index("g_whole")
CAUSAL_SUBGRAPHS = ORIGINS.index("g_inv")


def consistency_checks(
    info: CorpusInfo, columns: GraphColumns, sample: Sample, lineage: Sequence[Manifest]
) -> Iterator[Check]:
    """Yield every check that applies to the corpus."""
    spliced = np.isin(columns.origin, [ORIGINS.index(name) for name in SPLICED])
    if spliced.any():
        yield _label_check(columns, np.flatnonzero(spliced), lineage, "spliced")
        rows = sample.at(np.flatnonzero(spliced))
        yield _edge_check(columns, sample, rows, "spliced")
        yield _connectivity_check(sample.table.take(rows), lineage)
        yield from _molecule_check(info, sample.table.take(rows))
    perturbed = np.flatnonzero(np.isin(columns.origin, [ORIGINS.index(name) for name in PERTURBED]))
    if len(perturbed):
        yield _label_check(columns, perturbed, lineage, "perturbed")
        yield _edge_check(columns, sample, sample.at(perturbed), "perturbed")
    yield from featx_checks(columns, sample, lineage)
    yield from _leakage_checks(lineage)
    yield from _extractor_checks(lineage)
    yield from _conflict_checks(info, lineage)


def _label_check(
    columns: GraphColumns, rows: Ints, lineage: Sequence[Manifest], kind: str
) -> Check:
    """Recompute every label from the labels of the parents.

    Merged labels of causal subgraphs depend on other graphs too; they are left out.
    """
    configs = [m.config for m in lineage if m.stage == "generate"]
    title = "Labels derive from parents"
    merged = 0
    if not configs or any(config.get("label_conflicts") == "merge" for config in configs):
        is_subgraph = columns.origin[rows] == CAUSAL_SUBGRAPHS
        merged, rows = int(is_subgraph.sum()), rows[~is_subgraph]
        if not len(rows):
            text = "Labels of causal subgraphs are merged over equal subgraphs."
            return Check("note", title, "not checked", text)
    parents = columns.parents.take(rows)
    counts = np.diff(parents.ptr)
    parent_rows = rows_by_id(columns, parents.values)
    if (parent_rows < 0).any():
        text = "The source graphs are not in this corpus, so labels cannot be recomputed."
        return Check("note", title, "not checked", text)
    slot = np.arange(len(parent_rows)) - np.repeat(parents.ptr[:-1], counts)
    all_vote = np.repeat(columns.origin[rows] == WHOLE_GRAPHS, counts)
    votes = (all_vote | (slot == 0)).astype(np.float64)
    rules = [config.get("labels", "average") for config in configs]
    rule = rules[0] if rules else "average"
    sizes = None
    if rule == "size-scaled":
        training = (columns.origin == 0) & (columns.split == SPLITS.index("train"))
        slope = size_slope(columns.nodes[training], columns.y[training])
        sizes = Sizes(columns.nodes[parent_rows], columns.nodes[rows], slope)
    recomputed = spliced_labels(rule, columns.y[parent_rows], votes, counts, sizes)
    agrees = np.isclose(recomputed, columns.y[rows], atol=TOLERANCE, equal_nan=True).all(axis=1)
    wrong = int((~agrees).sum())
    text = (
        f"Labels of {len(rows):,} {kind} graphs were recomputed from the labels of their parents; "
        + (f"{wrong:,} differ." if wrong else "all agree.")
        + (f" {merged:,} causal subgraphs have merged labels and were left out." if merged else "")
    )
    verdict: Verdict = "bad" if wrong else "good"
    return Check(verdict, title, f"{agrees.mean():.1%}", text, by_construction=True)


def _edge_check(columns: GraphColumns, sample: Sample, rows: Ints, kind: str) -> Check:
    """Check that every edge except bridges exists in the parent of its two nodes."""
    table = sample.table.take(rows)
    title = "Edges exist in parents"
    src, dst = global_edges(table)
    owner = table.edge_graph()
    slot = table.lists("graph", "provenance.node_slot").values.astype(np.int64)
    node_number = table.lists("graph", "provenance.node_number").values.astype(np.int64)
    bridges = table.lists("graph", "provenance.bridges")
    bridge = np.zeros(table.total_edges, dtype=bool)
    bridge[bridges.values + table.edge_ptr[row_indices(bridges.ptr)]] = True
    inner_edges = np.flatnonzero(~bridge)
    same_slot = slot[src[inner_edges]] == slot[dst[inner_edges]]
    parents = table.lists("graph", "provenance.parents")
    parent_index = parents.ptr[owner[inner_edges]] + np.maximum(slot[src[inner_edges]], 0)
    parent_rows = rows_by_id(columns, parents.values[parent_index])
    position = np.searchsorted(sample.rows, parent_rows)
    position = np.minimum(position, len(sample.rows) - 1)
    if (parent_rows < 0).any() or (sample.rows[position] != parent_rows).any():
        text = "The source graphs are not in this corpus, so edges cannot be compared."
        return Check("note", title, "not checked", text)
    parent_edges = _edge_codes(sample.table)
    size = int(sample.table.num_nodes.max(initial=1))
    edge_codes = (position * size + node_number[src[inner_edges]]) * size + node_number[
        dst[inner_edges]
    ]
    in_parent = same_slot & np.isin(edge_codes, parent_edges)
    wrong = int((~in_parent).sum())
    text = (
        f"{len(inner_edges):,} edges of {len(rows):,} {kind} graphs are within a component; "
        + (f"{wrong:,} of them are not in the parent." if wrong else "all exist in the parent.")
        + (f" The other {int(bridge.sum()):,} edges are bridges." if kind == "spliced" else "")
    )
    share = float(in_parent.mean()) if len(in_parent) else 1.0
    verdict: Verdict = "bad" if wrong else "good"
    return Check(verdict, title, f"{share:.1%}", text, by_construction=True)


def _edge_codes(table: GraphTable) -> Ints:
    """Return one integer per edge that encodes graph, source node and target node."""
    size = int(table.num_nodes.max(initial=1))
    src = table.dense("edge", "edge_src").astype(np.int64)
    dst = table.dense("edge", "edge_dst").astype(np.int64)
    return (table.edge_graph() * size + src) * size + dst


def _connectivity_check(table: GraphTable, lineage: Sequence[Manifest]) -> Check:
    connected = is_connected(table)
    disconnected = int((~connected).sum())
    no_bridges = any(m.stage == "generate" and m.config.get("bridges") == "none" for m in lineage)
    text = f"{disconnected:,} of {len(table):,} sampled spliced graphs are disconnected"
    text += ", as expected with `bridges = none`." if no_bridges else "."
    verdict: Verdict = "good" if not disconnected else "note" if no_bridges else "bad"
    figure = f"{connected.mean():.1%}"
    return Check(verdict, "Graphs are connected", figure, text, by_construction=True)


def _molecule_check(info: CorpusInfo, table: GraphTable) -> Iterator[Check]:
    if not any(column.name == "smiles" for column in info.columns) or not len(table):
        return
    from gsx.stages.chem.smiles_reader import read_molecules

    parsed = read_molecules(decode_texts(table.lists("graph", "smiles")))
    valid = len(table) - len(parsed.refused)
    text = f"RDKit parses the SMILES of {valid:,} of {len(table):,} sampled spliced molecules"
    if is_molecular(info):
        stored = wl_hashes(_smiles_features(info, table.take(parsed.rows)))
        valid = int((stored == wl_hashes(_smiles_features(info, parsed.table))).sum())
        text += f"; {valid:,} of them have the atoms, charges and bonds of the graph"
    verdict: Verdict = "good" if valid == len(table) else "bad"
    figure = f"{valid / len(table):.1%}"
    yield Check(verdict, "Molecules are valid", figure, f"{text}.", by_construction=True)


def _smiles_features(info: CorpusInfo, table: GraphTable) -> GraphTable:
    """Keep the atom features that SMILES encode, without those that RDKit derives."""
    names = [feature.name for feature in info.column("node_feat").features or ()]
    columns = [names.index(name) for name in ("atomic_num", "formal_charge", "num_hs")]
    return table.with_columns(node={"node_feat": table.dense("node", "node_feat")[:, columns]})


def _leakage_checks(lineage: Sequence[Manifest]) -> Iterator[Check]:
    for manifest in lineage:
        options = _quality_rows(manifest) if manifest.kind == "corpus" else []
        if options:
            equal = sum(row["overlap_with_held_out"] for row in options)
            graphs = sum(row["graphs"] for row in options)
            distinct = sum(row["distinct"] for row in options)
            text = (
                f"{equal:,} of {graphs:,} generated graphs have the Weisfeiler-Lehman hash of a "
                "validation or test graph. Generation rejects such graphs."
            )
            verdict: Verdict = "bad" if equal else "good"
            title = "No leakage of held-out graphs"
            yield Check(verdict, title, f"{equal:,}", text, by_construction=True)
            verdict = "good" if distinct >= 0.9 * graphs else "note"
            text = f"{distinct:,} of {graphs:,} generated graphs are distinct, by the same hash."
            yield Check(verdict, "Generated graphs are distinct", f"{distinct / graphs:.1%}", text)
            return


def _quality_rows(manifest: Manifest) -> list[dict[str, Any]]:
    needed = {"graphs", "distinct", "overlap_with_held_out"}
    return [
        row
        for name, row in read_quality(manifest).items()
        if (name.startswith("option_") or name in ("augment", "featx"))
        and needed <= row.keys()
        and row["graphs"]
    ]


def _extractor_checks(lineage: Sequence[Manifest]) -> Iterator[Check]:
    for manifest in lineage:
        if manifest.kind != "extractor":
            continue
        quality = read_quality(manifest)
        causal = quality.get("causal")
        if causal is not None and causal.get("iou") is not None:
            text = (
                "Node IoU of extracted causal subgraphs with the ground truth of this dataset; "
                f"{causal.get('exact') or 0:.1%} of the subgraphs are exact."
            )
            verdict: Verdict = "good" if causal["iou"] >= 0.9 else "note"
            yield Check(
                verdict, "Causal subgraphs match the ground truth", f"{causal['iou']:.1%}", text
            )
        yield from causal_prediction_check(quality)


def _conflict_checks(info: CorpusInfo, lineage: Sequence[Manifest]) -> Iterator[Check]:
    for manifest in lineage:
        if manifest.kind != "corpus":
            continue
        rows = {
            name: row for name, row in read_quality(manifest).items() if name.startswith("option_")
        }
        for row in rows.values():
            yield from causal_conflict_check(row.get("causal_subgraphs"), info.task)
        yield from label_conflict_check(rows, info.task)
