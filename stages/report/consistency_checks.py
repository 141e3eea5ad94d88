"""Validity checks of generated graphs: labels, edges, connectivity, chemistry and leakage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gsx.ragged import Ints, decode_texts, row_indices
from gsx.schema import ORIGINS, CorpusInfo
from gsx.stages.augmented.label_rules import spliced_labels
from gsx.stages.chem.features import is_molecular
from gsx.stages.graphs.subgraphs import global_edges, is_connected
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.stages.report.check import TOLERANCE, Check, Verdict
from gsx.stages.report.featx_checks import featx_checks
from gsx.stages.report.sample import PERTURBED, GraphFacts, Sample, rows_by_id
from gsx.storage.artifacts.manifest import Manifest
from gsx.table import GraphTable

if TYPE_CHECKING:
    from gsx.stages.report.model_agreement import ModelAgreement

SPLICED = ("g_inv", "g_inv_env", "g_whole")
WHOLE_GRAPHS = ORIGINS.index("g_whole")
AGREEMENT_MARGIN = 0.05
"""Largest tolerated drop of agreement from labelled graphs to generated graphs."""
MIN_RELIABLE_AGREEMENT = 0.6
"""Smallest accuracy on labelled graphs for which the agreement of a classifier is conclusive."""


def consistency_checks(
    info: CorpusInfo, facts: GraphFacts, sample: Sample, lineage: Sequence[Manifest]
) -> Iterator[Check]:
    """Yield every check that applies to the corpus."""
    spliced = np.isin(facts.origin, [ORIGINS.index(name) for name in SPLICED])
    if spliced.any():
        yield _label_check(facts, np.flatnonzero(spliced), lineage, "spliced")
        rows = sample.at(np.flatnonzero(spliced))
        yield _edge_check(facts, sample, rows, "spliced")
        yield _connectivity_check(sample.table.take(rows), lineage)
        yield from _molecule_check(info, sample.table.take(rows))
    perturbed = np.flatnonzero(np.isin(facts.origin, [ORIGINS.index(name) for name in PERTURBED]))
    if len(perturbed):
        yield _label_check(facts, perturbed, lineage, "perturbed")
        yield _edge_check(facts, sample, sample.at(perturbed), "perturbed")
    yield from featx_checks(facts, sample, lineage)
    yield from _leakage_checks(lineage)
    yield from _extractor_checks(info, lineage)


def _label_check(facts: GraphFacts, rows: Ints, lineage: Sequence[Manifest], kind: str) -> Check:
    """Recompute every label from the labels of the parents in voting slots."""
    parents = facts.parents.take(rows)
    counts = np.diff(parents.ptr)
    parent_rows = rows_by_id(facts, parents.values)
    title = "Labels derive from parents"
    if (parent_rows < 0).any():
        text = "The source graphs are not in this corpus, so labels cannot be recomputed."
        return Check("note", title, "not checked", text)
    slot = np.arange(len(parent_rows)) - np.repeat(parents.ptr[:-1], counts)
    all_vote = np.repeat(facts.origin[rows] == WHOLE_GRAPHS, counts)
    votes = (all_vote | (slot == 0)).astype(np.float64)
    rules = [m.config.get("labels", "average") for m in lineage if m.stage == "generate"]
    recomputed = spliced_labels(
        rules[0] if rules else "average", facts.y[parent_rows], votes, counts
    )
    agrees = np.isclose(recomputed, facts.y[rows], atol=TOLERANCE, equal_nan=True).all(axis=1)
    wrong = int((~agrees).sum())
    text = (
        f"Labels of {len(rows):,} {kind} graphs were recomputed from the labels of their parents; "
        + (f"{wrong:,} differ." if wrong else "all agree.")
    )
    return Check("bad" if wrong else "good", title, f"{agrees.mean():.1%}", text)


def _edge_check(facts: GraphFacts, sample: Sample, rows: Ints, kind: str) -> Check:
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
    parent_rows = rows_by_id(facts, parents.values[parent_index])
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
    return Check("bad" if wrong else "good", title, f"{share:.1%}", text)


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
    return Check(verdict, "Graphs are connected", f"{connected.mean():.1%}", text)


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
    yield Check(verdict, "Molecules are valid", f"{valid / len(table):.1%}", f"{text}.")


def _smiles_features(info: CorpusInfo, table: GraphTable) -> GraphTable:
    """Keep the atom features that SMILES encode, without those that RDKit derives."""
    names = [feature.name for feature in info.column("node_feat").features or ()]
    columns = [names.index(name) for name in ("atomic_num", "formal_charge", "num_hs")]
    return table.with_columns(node={"node_feat": table.dense("node", "node_feat")[:, columns]})


def _leakage_checks(lineage: Sequence[Manifest]) -> Iterator[Check]:
    for manifest in lineage:
        options = _quality_rows(manifest)
        if manifest.stage in ("generate", "augment") and options:
            equal = sum(row["overlap_with_held_out"] for row in options)
            graphs = sum(row["graphs"] for row in options)
            distinct = sum(row["distinct"] for row in options)
            text = (
                f"{equal:,} of {graphs:,} generated graphs have the Weisfeiler-Lehman hash of a "
                "validation or test graph. Generation rejects such graphs."
            )
            verdict: Verdict = "bad" if equal else "good"
            yield Check(verdict, "No leakage of held-out graphs", f"{equal:,}", text)
            verdict = "good" if distinct >= 0.9 * graphs else "note"
            text = f"{distinct:,} of {graphs:,} generated graphs are distinct, by the same hash."
            yield Check(verdict, "Generated graphs are distinct", f"{distinct / graphs:.1%}", text)
            return


def _quality_rows(manifest: Manifest) -> list[dict[str, Any]]:
    quality = manifest.summary.get("quality", {})
    return [
        row
        for name, row in quality.items()
        if name.startswith("option_") or (name in ("augment", "featx") and "distinct" in row)
    ]


def _extractor_checks(info: CorpusInfo, lineage: Sequence[Manifest]) -> Iterator[Check]:
    measure = "ROC-AUC" if info.task == "binary" else "accuracy"
    for manifest in lineage:
        if manifest.kind != "extractor":
            continue
        quality = manifest.summary.get("quality", {})
        causal = quality.get("causal")
        if isinstance(causal, dict) and "iou" in causal:
            text = (
                "Node IoU of extracted causal subgraphs with the ground truth of this dataset; "
                f"{causal.get('exact', 0):.1%} of the subgraphs are exact."
            )
            verdict: Verdict = "good" if causal["iou"] >= 0.9 else "note"
            yield Check(
                verdict, "Causal subgraphs match the ground truth", f"{causal['iou']:.1%}", text
            )
        # Extractors before version 4 named this key after `id_val`.
        predicted = quality.get("label_told_held_out") or quality.get("label_told_on_id_val")
        if isinstance(predicted, dict) and None not in map(
            predicted.get, ("piece", "rest", "whole")
        ):
            text = (
                f"Held-out labels predicted from the causal subgraph alone ({measure}); from the "
                f"remaining nodes {predicted['rest']:.1%}, from the whole graph "
                f"{predicted['whole']:.1%}."
            )
            subgraph_suffices = predicted["piece"] >= predicted["rest"]
            verdict = "good" if subgraph_suffices else "note"
            yield Check(
                verdict, "Causal subgraphs predict the label", f"{predicted['piece']:.1%}", text
            )


def agreement_check(agreement: ModelAgreement | None, skipped: Sequence[str]) -> Iterator[Check]:
    """Yield the agreement of a classifier with labels of generated items, against its accuracy."""
    title = "Classifier agreement"
    if agreement is None:
        if skipped:
            text = f"{len(skipped)} classifiers could not be used; the first is {skipped[0]}"
            yield Check("note", title, "not checked", text)
        return
    augmented_rows = [row for row in agreement.rows if row["group"] == "augmented"]
    rows_by_group = {row["group"]: row for row in agreement.rows}
    agreements = [
        (row["same"], row["items"]) for row in augmented_rows if row.get("same") is not None
    ]
    if not agreements:
        return
    agreement_rate = sum(share * items for share, items in agreements) / sum(
        items for _, items in agreements
    )
    reference_row = next(
        (rows_by_group[name] for name in ("id_test", "train") if name in rows_by_group), None
    )
    reference_rate = None if reference_row is None else reference_row.get("same")
    text = (
        f"Share of generated items whose label {agreement.name} (trained on "
        f"{agreement.trained_on}) predicts"
    )
    if reference_rate is not None and reference_row is not None:
        text += (
            f"; on {reference_row['name']} it predicts {reference_rate:.1%} correctly. A "
            "disagreement can be an error of the classifier."
        )
    if agreement.trained_on_these:
        text += " It was trained on these labels, so the agreement is inconclusive."
    reliable = (
        reference_rate is not None
        and reference_rate >= MIN_RELIABLE_AGREEMENT
        and not agreement.trained_on_these
    )
    agrees = (
        reliable
        and reference_rate is not None
        and agreement_rate >= reference_rate - AGREEMENT_MARGIN
    )
    yield Check("good" if agrees else "note", title, f"{agreement_rate:.1%}", text)
