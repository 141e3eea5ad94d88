"""Split graphs, or nodes, that a user brought, and make ready to write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gsx.errors import StageError, did_you_mean
from gsx.ragged import Array, Ints, Ragged, pointers
from gsx.schema import CorpusInfo
from gsx.seeds import rng
from gsx.stages.block_executor import BlockExecutor
from gsx.stages.prepare.dataset import DatasetRequest, PreparedDataset
from gsx.stages.prepare.kmeans import embed_graphs, embed_nodes
from gsx.stages.prepare.node_dataset import NodeCorpusDescription, NodeGraph, node_dataset
from gsx.stages.prepare.readers.csv_tables import split_codes
from gsx.stages.prepare.readers.parsed import ParsedGraphs, found_columns
from gsx.stages.prepare.readers.smiles_blocks import read_smiles
from gsx.stages.prepare.split_methods import UNUSED, split_counts
from gsx.stages.prepare.splitting import (
    DomainKey,
    ItemDomains,
    SplitAssignment,
    assign_splits,
    assignment_columns,
    coded_domains,
    empty_split_warnings,
    environment_table,
    environments_from_ids,
    infer_environments,
    sorted_domains,
    split_slicer,
)
from gsx.stages.prepare.targets import Labels, parse_labels
from gsx.stages.prepare.user.options import describe, split_rule
from gsx.storage.artifacts.manifest import Dropped

_SPARSE_WIDTH, _SPARSE_SHARE = 64, 0.1
"""Features that say yes or no are stored sparse from this width on, if so few say yes."""


def open_parsed(
    order: DatasetRequest, chosen: Mapping[str, Any], found: ParsedGraphs
) -> PreparedDataset:
    """Return what is to be written."""
    task = found.task if chosen["task"] == "auto" else chosen["task"]
    labels = parse_labels(found.targets, found.names, task, chosen["metric"], found.where)
    stream = rng(order.seed, "prepare", order.name, "id")
    domain, domains, warnings = _domains(found, chosen["domain"], order.executor)
    given = _given(found, chosen) if chosen["rule"] == "column" else None
    placed = assign_splits(domains, split_rule(chosen), stream, where=found.where, given=given)
    if chosen["environments"] == "given":
        placed = _with_given(placed, found)
    elif chosen["environments"] == "infer":
        placed = _with_inferred(placed, found, stream)
    warnings += tuple(filter(None, [placed.note]))
    warnings += found.warnings + label_warnings(labels, split_counts(placed.split), found.level)
    if found.level == "node":
        return _nodes(found, labels, placed, domain, chosen, warnings)
    return _graphs(found, labels, placed, domain, chosen, warnings)


def label_warnings(labels: Labels, sizes: Mapping[str, int], item: str) -> tuple[str, ...]:
    """Return what a user should know of splits and labels."""
    warnings = []
    if not sizes["ood_test"]:
        warnings.append(
            "nothing is left to test on: the last domains are too large for these shares. Ask for "
            "a smaller share to train on, such as `--ratios 0.5/0.25/0.1`, or another domain"
        )
    if labels.unknown:
        warnings.append(f"nothing is known of {labels.unknown:,} {item}s: they have no label")
    if labels.task == "classification" and labels.outputs[:2] == ("-1", "0"):
        many = int((labels.label == 0).sum())
        warnings.append(
            f"-1 is taken for a class, which {many:,} {item}s have; where it means that nothing is "
            "known, write NaN instead"
        )
    return tuple(warnings)


def _given(found: ParsedGraphs, chosen: Mapping[str, Any]) -> Ints:
    """Return the splits that the files name."""
    name = chosen["split_column"]
    if found.given is not None:
        return found.given
    if name in found.columns:
        return split_codes(found.columns[name], name, found.where)
    if not name:
        raise StageError(
            f"{found.where} names no splits. Say which field does: `--split-column NAME`."
        )
    raise StageError(f"{found.where} has no column `{name}`. {did_you_mean(name, found.columns)}")


def _domains(
    found: ParsedGraphs, domain: str, executor: BlockExecutor
) -> tuple[str, ItemDomains, tuple[str, ...]]:
    """Return what items are sorted by: its name, the domain of every item, and warnings."""
    own = "degree" if found.level == "node" else "size"
    if domain == "auto":
        domain = "column:domain_id" if "domain_id" in found.columns else own
    if domain in ("size", "degree"):
        if domain != own:
            items = "nodes" if found.level == "node" else "graphs"
            raise StageError(
                f"{found.where}: {items} are labelled; sort them by their {own} (`--domain {own}`) "
                "or a column."
            )
        if own == "size":
            return domain, sorted_domains(found.table.num_nodes.tolist(), "nodes"), ()
        return domain, sorted_domains(_degree(found).tolist(), "links"), ()
    if domain == "scaffold":
        return _scaffolds(found, executor)
    name = domain.removeprefix("column:")
    if name not in found.columns:
        raise StageError(
            f"{found.where} has no column `{name}`. {did_you_mean(name, found.columns)}"
        )
    keys: Sequence[DomainKey] = found.columns[name]
    lost = [row for row, key in enumerate(keys) if key != key or key == ""]
    if lost:
        raise StageError(f"{found.where}, row {lost[0]}: {name} is missing; expected a domain.")
    return name, sorted_domains(keys, name), ()


def _scaffolds(
    found: ParsedGraphs, executor: BlockExecutor
) -> tuple[str, ItemDomains, tuple[str, ...]]:
    texts = found.columns.get("smiles")
    if texts is None or found.level == "node":
        raise StageError(
            f"{found.where}: no SMILES to find scaffolds by. Sort by `size`, or prepare the "
            "SMILES themselves: `gsx prepare --smiles FILE.csv`."
        )
    read = read_smiles((str(text).strip() for text in texts), executor)
    code = np.full(read.count, len(read.scaffolds), dtype=np.int64)
    code[read.rows] = read.scaffold
    domains = coded_domains((*read.scaffolds, ""), code, "scaffolds", numbered=True)
    warnings = (
        (f"{len(read.refused):,} SMILES cannot be read: as if they had no scaffold",)
        if read.refused
        else ()
    )
    return "scaffold", domains, warnings


def _degree(found: ParsedGraphs) -> Ints:
    return np.bincount(found.table.dense("edge", "edge_src"), minlength=found.table.total_nodes)


def _with_given(placed: SplitAssignment, found: ParsedGraphs) -> SplitAssignment:
    if found.env is None:
        raise StageError(
            f"{found.where} names no environments (`env_id`). Cut them: `--envs K` or "
            "`--envs infer`."
        )
    return environments_from_ids(placed, found.env, found.where)


def _with_inferred(
    placed: SplitAssignment, found: ParsedGraphs, stream: np.random.Generator
) -> SplitAssignment:
    if found.level == "graph":
        return infer_environments(
            placed,
            found.table.num_nodes,
            lambda pool: embed_graphs(found.table.take(pool), found.node_words),
            stream,
        )
    degree, values = _degree(found), found.table.dense("node", "node_feat")
    return infer_environments(
        placed, degree, lambda pool: embed_nodes(values[pool], degree[pool]), stream, "links"
    )


def _graphs(
    found: ParsedGraphs,
    labels: Labels,
    placed: SplitAssignment,
    domain: str,
    chosen: Mapping[str, Any],
    warnings: tuple[str, ...],
) -> PreparedDataset:
    counts = split_counts(placed.split)
    columns = assignment_columns(
        np.arange(len(found.table)),
        placed.split,
        placed.env_id,
        placed.domains.number,
        labels.y,
        labels.label,
    )
    return PreparedDataset(
        info=CorpusInfo(
            name=chosen["name"],
            task=labels.task,
            metric=labels.metric,
            outputs=labels.outputs,
            domain=domain,
            domains=placed.domains.texts(),
            environments=environment_table(placed),
            columns=found_columns(
                found.table, found.node_words, found.edge_words, outputs=len(labels.outputs)
            ),
            num_features=found.table.dense("node", "node_feat").shape[1],
            description=describe(chosen, domain),
        ),
        split_sizes=counts,
        build=split_slicer(found.table.with_columns(graph=columns)),
        dropped=_unused(placed.split),
        warnings=empty_split_warnings(counts) + warnings,
    )


def _nodes(
    found: ParsedGraphs,
    labels: Labels,
    placed: SplitAssignment,
    domain: str,
    chosen: Mapping[str, Any],
    warnings: tuple[str, ...],
) -> PreparedDataset:
    values = found.table.dense("node", "node_feat")
    graph = NodeGraph(
        features=_sparse(values) if _is_bag(values) else values,
        num_features=values.shape[1],
        src=found.table.dense("edge", "edge_src").astype(np.int64),
        dst=found.table.dense("edge", "edge_dst").astype(np.int64),
        labels=labels,
        placed=placed,
    )
    about = NodeCorpusDescription(
        name=chosen["name"],
        domain=domain,
        description=describe(chosen, domain),
        licence="",
        citation="",
    )
    empty = empty_split_warnings(split_counts(placed.split))
    return node_dataset(graph, about, warnings=empty + warnings)


def _is_bag(values: Array) -> bool:
    """Say whether features are many, say yes or no, and mostly no."""
    wide = values.shape[1] >= _SPARSE_WIDTH
    return bool(wide and np.isin(values, (0, 1)).all() and values.mean() < _SPARSE_SHARE)


def _sparse(values: Array) -> Ragged:
    row, column = np.nonzero(values)
    return Ragged(pointers(np.bincount(row, minlength=len(values))), column.astype(np.int64))


def _unused(split: Ints) -> tuple[Dropped, ...]:
    count = int((split == UNUSED).sum())
    if not count:
        return ()
    return (Dropped(reason="graphs that no split names", count=count, examples=()),)
