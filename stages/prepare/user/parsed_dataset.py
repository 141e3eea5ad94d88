"""Split parsed graphs or nodes from users and describe their corpus."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gsx.errors import InputError, StageError, did_you_mean
from gsx.plurals import counted
from gsx.ragged import Array, Ints, Ragged, pointers
from gsx.schema import CorpusInfo
from gsx.seeds import rng
from gsx.stages.prepare.dataset import DatasetRequest, PreparedDataset
from gsx.stages.prepare.kmeans import embed_graphs, embed_nodes
from gsx.stages.prepare.node_dataset import NodeCorpusDescription, NodeGraph, node_dataset
from gsx.stages.prepare.readers.csv_tables import split_codes
from gsx.stages.prepare.readers.names import check_name
from gsx.stages.prepare.readers.parsed import ParsedGraphs, table_columns
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
    ratio_warnings,
    sorted_domains,
    split_slicer,
)
from gsx.stages.prepare.targets import Labels, parse_labels
from gsx.stages.prepare.user.options import corpus_description, split_rule
from gsx.storage.artifacts.manifest import Dropped

_SPARSE_WIDTH, _SPARSE_SHARE = 64, 0.1
"""Binary features of at least this width and below this share of ones are stored sparse."""


def open_parsed(
    request: DatasetRequest, options: Mapping[str, Any], parsed: ParsedGraphs
) -> PreparedDataset:
    """Assign splits and environments to parsed graphs or nodes."""
    task = parsed.task if options["task"] == "auto" else options["task"]
    labels = parse_labels(
        parsed.targets, parsed.names, task, options["metric"], parsed.where, parsed.classes
    )
    stream = rng(request.seed, "prepare", request.name, "id")
    domain, domains, warnings = _domains(parsed, options, request)
    preset_split = _splits(parsed, options) if options["rule"] == "column" else None
    rule = split_rule(options)
    assignment = assign_splits(
        domains,
        rule,
        stream,
        where=parsed.where,
        preset_split=preset_split,
        label=labels.label,
    )
    warnings += ratio_warnings(assignment, rule, f"{parsed.level}s")
    if options["environments"] == "given":
        assignment = _with_file_environments(assignment, parsed)
    elif options["environments"] == "infer":
        assignment = _with_inferred_environments(assignment, parsed, stream)
    warnings += tuple(filter(None, [assignment.note]))
    warnings += parsed.warnings + label_warnings(
        labels, split_counts(assignment.split), parsed.level
    )
    if parsed.level == "node":
        return _nodes(parsed, labels, assignment, domain, options, warnings)
    return _graphs(parsed, labels, assignment, domain, options, warnings)


def label_warnings(labels: Labels, sizes: Mapping[str, int], item: str) -> tuple[str, ...]:
    """Return warnings about empty test splits, missing labels and the class -1."""
    warnings = []
    if not sizes["ood_test"]:
        warnings.append(
            "ood_test is empty: the last domains are too large for these ratios. Use smaller "
            "training and validation ratios, such as `--ratios 0.5/0.25/0.1`, or another domain"
        )
    if labels.unknown:
        verb = "has" if labels.unknown == 1 else "have"
        warnings.append(f"{counted(labels.unknown, item)} {verb} no label")
    if labels.task == "classification" and labels.outputs[:2] == ("-1", "0"):
        count = int((labels.label == 0).sum())
        warnings.append(
            f"{count:,} {item}s have the label -1, which is read as a class; use NaN for missing "
            "labels"
        )
    return tuple(warnings)


def _splits(parsed: ParsedGraphs, options: Mapping[str, Any]) -> Ints:
    """Return the splits that the files contain."""
    name = options["split_column"]
    if parsed.splits is not None:
        return parsed.splits
    if name in parsed.columns:
        return split_codes(parsed.columns[name], name, parsed.where)
    if not name:
        raise StageError(
            f"{parsed.where} contains no splits. Select a field with splits: `--split-column NAME`."
        )
    raise InputError(f"{parsed.where} has no column `{name}`. {did_you_mean(name, parsed.columns)}")


def _domains(
    parsed: ParsedGraphs, options: Mapping[str, Any], request: DatasetRequest
) -> tuple[str, ItemDomains, tuple[str, ...]]:
    """Return the name of the domain, the domain of every item, and warnings."""
    domain: str = options["domain"]
    default = "degree" if parsed.level == "node" else "size"
    if domain == "auto":
        domain = "column:domain_id" if "domain_id" in parsed.columns else default
    if domain in ("size", "degree"):
        if domain != default:
            items = "nodes" if parsed.level == "node" else "graphs"
            raise StageError(
                f"{parsed.where}: {items} are labelled, and {domain} is not a domain of {items}. "
                f"Use `--domain {default}` or `--domain column:NAME`."
            )
        if default == "size":
            return domain, sorted_domains(parsed.table.num_nodes.tolist(), "nodes"), ()
        return domain, sorted_domains(_degree(parsed).tolist(), "links"), ()
    if domain == "scaffold":
        return _scaffolds(parsed, request, options["max_atoms"])
    name = domain.removeprefix("column:")
    if name not in parsed.columns:
        raise InputError(
            f"{parsed.where} has no column `{name}`. {did_you_mean(name, parsed.columns)}"
        )
    keys: Sequence[DomainKey] = parsed.columns[name]
    _check_domain_values(keys, name, parsed.where)
    return name, sorted_domains(keys, name), ()


def _check_domain_values(keys: Sequence[DomainKey], name: str, where: str) -> None:
    """Reject missing and infinite domains, and texts that cannot be names."""
    for row, key in enumerate(keys):
        if key != key or key == "":
            raise StageError(f"{where}, row {row}: {name} is missing. Every row needs a domain.")
        if isinstance(key, str):
            check_name(key, f"{where}, row {row}: {name}")
        elif math.isinf(key):
            raise StageError(f"{where}, row {row}: {name} is infinite. Set a finite domain.")


def _scaffolds(
    parsed: ParsedGraphs, request: DatasetRequest, max_atoms: int
) -> tuple[str, ItemDomains, tuple[str, ...]]:
    texts = parsed.columns.get("smiles")
    if texts is None or parsed.level == "node":
        raise StageError(
            f"{parsed.where}: the domain `scaffold` needs SMILES of graphs. Use `--domain size`, "
            "or prepare a table of SMILES: `gsx prepare --smiles FILE.csv`."
        )
    molecules = read_smiles(
        (str(text).strip() for text in texts),
        request.executor,
        max_atoms,
        lambda done: request.progress(done, len(texts), "rows parsed"),
    )
    code = np.full(molecules.count, len(molecules.scaffolds), dtype=np.int64)
    code[molecules.rows] = molecules.scaffold
    domains = coded_domains((*molecules.scaffolds, ""), code, "scaffolds", numbered=True)
    warnings = (
        (
            f"{len(molecules.refused):,} SMILES cannot be read and count as molecules without "
            "scaffold",
        )
        if molecules.refused
        else ()
    )
    return "scaffold", domains, warnings


def _degree(parsed: ParsedGraphs) -> Ints:
    return np.bincount(parsed.table.dense("edge", "edge_src"), minlength=parsed.table.total_nodes)


def _with_file_environments(assignment: SplitAssignment, parsed: ParsedGraphs) -> SplitAssignment:
    if parsed.env is None:
        raise StageError(
            f"{parsed.where} contains no environments (`env_id`). Define them with `--envs K` or "
            "`--envs infer`."
        )
    return environments_from_ids(assignment, parsed.env, parsed.where)


def _with_inferred_environments(
    assignment: SplitAssignment, parsed: ParsedGraphs, stream: np.random.Generator
) -> SplitAssignment:
    if parsed.level == "graph":
        return infer_environments(
            assignment,
            parsed.table.num_nodes,
            lambda pool: embed_graphs(parsed.table.take(pool), parsed.node_words),
            stream,
        )
    degree, values = _degree(parsed), parsed.table.dense("node", "node_feat")
    return infer_environments(
        assignment, degree, lambda pool: embed_nodes(values[pool], degree[pool]), stream, "links"
    )


def _graphs(
    parsed: ParsedGraphs,
    labels: Labels,
    assignment: SplitAssignment,
    domain: str,
    options: Mapping[str, Any],
    warnings: tuple[str, ...],
) -> PreparedDataset:
    counts = split_counts(assignment.split)
    columns = assignment_columns(
        np.arange(len(parsed.table)),
        assignment.split,
        assignment.env_id,
        assignment.domains.number,
        labels.y,
        labels.label,
    )
    return PreparedDataset(
        info=CorpusInfo(
            name=options["name"],
            task=labels.task,
            metric=labels.metric,
            outputs=labels.outputs,
            domain=domain,
            domains=assignment.domains.texts(),
            environments=environment_table(assignment),
            columns=table_columns(
                parsed.table, parsed.node_words, parsed.edge_words, outputs=len(labels.outputs)
            ),
            num_features=parsed.table.dense("node", "node_feat").shape[1],
            description=corpus_description(options, domain),
        ),
        split_sizes=counts,
        build=split_slicer(parsed.table.with_columns(graph=columns)),
        dropped=_unused(assignment.split),
        warnings=empty_split_warnings(counts) + warnings,
    )


def _nodes(
    parsed: ParsedGraphs,
    labels: Labels,
    assignment: SplitAssignment,
    domain: str,
    options: Mapping[str, Any],
    warnings: tuple[str, ...],
) -> PreparedDataset:
    values = parsed.table.dense("node", "node_feat")
    graph = NodeGraph(
        features=_sparse(values) if _is_sparse(values) else values,
        num_features=values.shape[1],
        names=parsed.feature_names,
        src=parsed.table.dense("edge", "edge_src").astype(np.int64),
        dst=parsed.table.dense("edge", "edge_dst").astype(np.int64),
        labels=labels,
        assignment=assignment,
    )
    description = NodeCorpusDescription(
        name=options["name"],
        domain=domain,
        description=corpus_description(options, domain),
        licence="",
        citation="",
    )
    empty = empty_split_warnings(split_counts(assignment.split))
    return node_dataset(graph, description, warnings=empty + warnings)


def _is_sparse(values: Array) -> bool:
    """Return whether features are binary, many, and mostly zero."""
    wide = values.shape[1] >= _SPARSE_WIDTH
    return bool(wide and np.isin(values, (0, 1)).all() and values.mean() < _SPARSE_SHARE)


def _sparse(values: Array) -> Ragged:
    row, column = np.nonzero(values)
    return Ragged(pointers(np.bincount(row, minlength=len(values))), column.astype(np.int64))


def _unused(split: Ints) -> tuple[Dropped, ...]:
    count = int((split == UNUSED).sum())
    if not count:
        return ()
    return (Dropped(reason="graphs in no split", count=count, examples=()),)
