"""Is it still true? Checks of synthetic graphs against parents, chemistry and the extractor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gsx.ragged import Ints, decode_texts, row_indices
from gsx.schema import ORIGINS, CorpusInfo
from gsx.stages.augmented.label_rules import spliced_labels
from gsx.stages.chem.features import molecular
from gsx.stages.graphs.subgraphs import global_edges, is_connected
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.stages.report.check import TOLERANCE, Check, Verdict
from gsx.stages.report.featx_checks import moved_checks
from gsx.stages.report.sample import CHANGED, Facts, Sample, rows_by_id
from gsx.storage.artifacts.manifest import Manifest
from gsx.table import GraphTable

if TYPE_CHECKING:
    from gsx.stages.report.model_agreement import Opinion

SPLICED = ("g_inv", "g_inv_env", "g_whole")
WHOLE = ORIGINS.index("g_whole")
NEAR_ENOUGH = 0.05
"""How much more seldom a classifier may tell the label of what was made than of what it knows."""
WORTH_ASKING = 0.6
"""How often a classifier must be right where labels are known for its agreement to count."""


def checks(
    info: CorpusInfo, facts: Facts, sample: Sample, lineage: Sequence[Manifest]
) -> Iterator[Check]:
    """Yield every check that a corpus allows."""
    spliced = np.isin(facts.origin, [ORIGINS.index(name) for name in SPLICED])
    if spliced.any():
        yield _labels(facts, np.flatnonzero(spliced), lineage, "spliced")
        rows = sample.at(np.flatnonzero(spliced))
        yield _edges(facts, sample, rows, "spliced")
        yield _connected(sample.table.take(rows), lineage)
        yield from _molecules(info, sample.table.take(rows))
    changed = np.flatnonzero(np.isin(facts.origin, [ORIGINS.index(name) for name in CHANGED]))
    if len(changed):
        yield _labels(facts, changed, lineage, "changed")
        yield _edges(facts, sample, sample.at(changed), "changed")
    yield from moved_checks(facts, sample, lineage)
    yield from _leaks(lineage)
    yield from _extractor(info, lineage)


def _labels(facts: Facts, rows: Ints, lineage: Sequence[Manifest], what: str) -> Check:
    """Compute every label again from the parents' labels over the slots that vote."""
    parents = facts.parents.take(rows)
    counts = np.diff(parents.ptr)
    source = rows_by_id(facts, parents.values)
    title = "Labels follow from parents"
    if (source < 0).any():
        text = "The source graphs are not in this corpus, so labels cannot be computed again."
        return Check("note", title, "not checked", text)
    slot = np.arange(len(source)) - np.repeat(parents.ptr[:-1], counts)
    whole = np.repeat(facts.origin[rows] == WHOLE, counts)
    votes = (whole | (slot == 0)).astype(np.float64)
    rules = [m.config.get("labels", "average") for m in lineage if m.stage == "generate"]
    again = spliced_labels(rules[0] if rules else "average", facts.y[source], votes, counts)
    same = np.isclose(again, facts.y[rows], atol=TOLERANCE, equal_nan=True).all(axis=1)
    wrong = int((~same).sum())
    text = (
        f"Every label of {len(rows):,} {what} graphs was computed again from its parents' labels; "
        + (f"{wrong:,} differ." if wrong else "all agree.")
    )
    return Check("bad" if wrong else "good", title, f"{same.mean():.1%}", text)


def _edges(facts: Facts, sample: Sample, rows: Ints, what: str) -> Check:
    """Look for every edge that is no bridge in the parent of its two nodes."""
    table = sample.table.take(rows)
    title = "Edges come from parents"
    src, dst = global_edges(table)
    owner = table.edge_graph()
    slot = table.lists("graph", "provenance.node_slot").values.astype(np.int64)
    number = table.lists("graph", "provenance.node_number").values.astype(np.int64)
    bridges = table.lists("graph", "provenance.bridges")
    bridge = np.zeros(table.total_edges, dtype=bool)
    bridge[bridges.values + table.edge_ptr[row_indices(bridges.ptr)]] = True
    kept = np.flatnonzero(~bridge)
    inside = slot[src[kept]] == slot[dst[kept]]
    parents = table.lists("graph", "provenance.parents")
    at = parents.ptr[owner[kept]] + np.maximum(slot[src[kept]], 0)
    source = rows_by_id(facts, parents.values[at])
    place = np.searchsorted(sample.rows, source)
    place = np.minimum(place, len(sample.rows) - 1)
    if (source < 0).any() or (sample.rows[place] != source).any():
        text = "The source graphs are not in this corpus, so edges cannot be looked up."
        return Check("note", title, "not checked", text)
    known = _codes(sample.table)
    size = int(sample.table.num_nodes.max(initial=1))
    wanted = (place * size + number[src[kept]]) * size + number[dst[kept]]
    found = inside & np.isin(wanted, known)
    wrong = int((~found).sum())
    text = (
        f"{len(kept):,} edges of {len(rows):,} {what} graphs lie inside a piece; "
        + (f"{wrong:,} of them are not in its parent." if wrong else "all are edges of its parent.")
        + (f" The other {int(bridge.sum()):,} are bridges." if what == "spliced" else "")
    )
    share = float(found.mean()) if len(found) else 1.0
    return Check("bad" if wrong else "good", title, f"{share:.1%}", text)


def _codes(table: GraphTable) -> Ints:
    """Return one number per edge of all sampled graphs: graph, from, to."""
    size = int(table.num_nodes.max(initial=1))
    src = table.dense("edge", "edge_src").astype(np.int64)
    dst = table.dense("edge", "edge_dst").astype(np.int64)
    return (table.edge_graph() * size + src) * size + dst


def _connected(table: GraphTable, lineage: Sequence[Manifest]) -> Check:
    whole = is_connected(table)
    apart = int((~whole).sum())
    asked = any(m.stage == "generate" and m.config.get("bridges") == "none" for m in lineage)
    text = f"Of {len(table):,} spliced graphs looked at, {apart:,} fall apart"
    text += ", as `bridges = none` asks for." if asked else "."
    verdict: Verdict = "good" if not apart else "note" if asked else "bad"
    return Check(verdict, "Graphs are connected", f"{whole.mean():.1%}", text)


def _molecules(info: CorpusInfo, table: GraphTable) -> Iterator[Check]:
    if not any(column.name == "smiles" for column in info.columns) or not len(table):
        return
    from gsx.stages.chem.smiles_reader import read_molecules

    again = read_molecules(decode_texts(table.lists("graph", "smiles")))
    valid = len(table) - len(again.refused)
    text = f"RDKit reads the SMILES of {valid:,} of {len(table):,} spliced molecules looked at"
    if molecular(info):
        stored = wl_hashes(_atoms(info, table.take(again.rows)))
        valid = int((stored == wl_hashes(_atoms(info, again.table))).sum())
        text += f"; {valid:,} of them say the atoms, charges and bonds of the graph"
    verdict: Verdict = "good" if valid == len(table) else "bad"
    yield Check(verdict, "Molecules are molecules", f"{valid / len(table):.1%}", f"{text}.")


def _atoms(info: CorpusInfo, table: GraphTable) -> GraphTable:
    """Return molecules with what SMILES say of an atom, without what RDKit derives from it."""
    named = [feature.name for feature in info.column("node_feat").features or ()]
    kept = [named.index(name) for name in ("atomic_num", "formal_charge", "num_hs")]
    return table.with_columns(node={"node_feat": table.dense("node", "node_feat")[:, kept]})


def _leaks(lineage: Sequence[Manifest]) -> Iterator[Check]:
    for manifest in lineage:
        options = _options(manifest)
        if manifest.stage in ("generate", "augment") and options:
            equal = sum(row["overlap_with_held_out"] for row in options)
            graphs = sum(row["graphs"] for row in options)
            distinct = sum(row["distinct"] for row in options)
            text = (
                f"{equal:,} of {graphs:,} synthetic graphs have the Weisfeiler-Lehman hash of a "
                "validation or test graph; such graphs are refused when a corpus is made."
            )
            verdict: Verdict = "bad" if equal else "good"
            yield Check(verdict, "No held-out graph leaks in", f"{equal:,}", text)
            verdict = "good" if distinct >= 0.9 * graphs else "note"
            text = f"{distinct:,} of {graphs:,} synthetic graphs are distinct, by the same hash."
            yield Check(verdict, "Graphs differ", f"{distinct / graphs:.1%}", text)
            return


def _options(manifest: Manifest) -> list[dict[str, Any]]:
    quality = manifest.summary.get("quality", {})
    return [
        row
        for name, row in quality.items()
        if name.startswith("option_") or (name in ("augment", "featx") and "distinct" in row)
    ]


def _extractor(info: CorpusInfo, lineage: Sequence[Manifest]) -> Iterator[Check]:
    measure = "ROC-AUC" if info.task == "binary" else "share told right"
    for manifest in lineage:
        if manifest.kind != "extractor":
            continue
        quality = manifest.summary.get("quality", {})
        causal = quality.get("causal")
        if isinstance(causal, dict) and "iou" in causal:
            text = (
                "Overlap (IoU) of the causal pieces that were found with the true ones, which this "
                f"dataset knows; {causal.get('exact', 0):.1%} of the pieces are exact."
            )
            verdict: Verdict = "good" if causal["iou"] >= 0.9 else "note"
            yield Check(verdict, "Causal pieces are the true ones", f"{causal['iou']:.1%}", text)
        # Named after `id_val` by extractors before version 4.
        told = quality.get("label_told_held_out") or quality.get("label_told_on_id_val")
        if isinstance(told, dict) and None not in map(told.get, ("piece", "rest", "whole")):
            text = (
                f"Held-out labels told from the causal piece alone ({measure}); from the rest of "
                f"the graph {told['rest']:.1%}, from all of it {told['whole']:.1%}."
            )
            enough = told["piece"] >= told["rest"]
            verdict = "good" if enough else "note"
            yield Check(verdict, "Pieces carry the label", f"{told['piece']:.1%}", text)


def second_opinion(opinion: Opinion | None, passed: Sequence[str]) -> Iterator[Check]:
    """Compare labels of what was made with what a classifier tells, against how good that is."""
    title = "A classifier tells the same"
    if opinion is None:
        if passed:
            text = f"{len(passed)} classifiers could not be asked; the first is {passed[0]}"
            yield Check("note", title, "not asked", text)
        return
    made = [row for row in opinion.rows if row["group"] == "augmented"]
    known = {row["group"]: row for row in opinion.rows}
    mine = [(row["same"], row["items"]) for row in made if row.get("same") is not None]
    if not mine:
        return
    same = sum(share * items for share, items in mine) / sum(items for _, items in mine)
    held = next((known[name] for name in ("id_test", "train") if name in known), None)
    usual = None if held is None else held.get("same")
    text = f"Labels of synthetic items that {opinion.name} (trained on {opinion.where}) tells too"
    if usual is not None and held is not None:
        text += f"; of {held['name']} it tells {usual:.1%} right. It may be the one who errs."
    if opinion.learned_these:
        text += " It has learned from these very labels, so this says little."
    fit = usual is not None and usual >= WORTH_ASKING and not opinion.learned_these
    near = fit and usual is not None and same >= usual - NEAR_ENOUGH
    yield Check("good" if near else "note", title, f"{same:.1%}", text)
