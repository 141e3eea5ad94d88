"""Molecule datasets: parse SMILES, split the rows and describe the corpus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.ragged import Ints
from gsx.schema import SPLITS, Column, CorpusInfo, Feature, corpus_columns
from gsx.stages.block_executor import BlockExecutor
from gsx.stages.chem.features import ATOM_FEATURES, BOND_FEATURES, FEATURE_DTYPE
from gsx.stages.chem.limits import MAX_ATOMS
from gsx.stages.prepare.dataset import PreparedDataset
from gsx.stages.prepare.kmeans import embed_graphs
from gsx.stages.prepare.readers.csv_tables import CodedColumn
from gsx.stages.prepare.readers.smiles_blocks import ParsedMolecules, read_smiles
from gsx.stages.prepare.split_methods import split_counts
from gsx.stages.prepare.splitting import (
    ItemDomains,
    SplitAssignment,
    SplitRule,
    assign_splits,
    assignment_columns,
    coded_domains,
    empty_split_warnings,
    environment_table,
    infer_environments,
    ratio_warnings,
)
from gsx.stages.prepare.targets import Labels
from gsx.stages.stage import Progress, ignore_progress
from gsx.storage.artifacts.manifest import Dropped
from gsx.table import GraphTable

_EXTRAS = (
    Column(name="smiles", axis="graph", dtype="text", ragged=True,
           doc="SMILES as in the raw file; node i is its i-th atom"),
    Column(name="scaffold", axis="graph", dtype="text", ragged=True,
           doc="SMILES of the Bemis-Murcko scaffold without chirality; empty without rings"),
)  # fmt: skip
UNREADABLE = "rows of the raw file that RDKit cannot read"


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusDescription:
    """Name, description, licence and citation of a corpus."""

    name: str
    description: str
    licence: str = ""
    citation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MoleculeRequest:
    """Rows of a raw file, their labels, and how to split them."""

    where: str
    """Name of the file in error messages."""
    smiles: Iterable[str]
    labels: Labels
    domain: str
    """``size``, ``scaffold``, or the name of ``column``."""
    column: CodedColumn | None = None
    """Domain of every row, unless it is size or scaffold."""
    rule: SplitRule
    preset_split: Ints | None = None
    """``[n]`` split of every row, for the rule ``column``."""
    infer: bool = False
    """Whether environments are inferred by clustering instead of ranges of the domain."""
    unreadable_placed: bool = False
    """Whether unreadable rows are split before they are dropped; not with ``infer``."""
    check_ratios: bool = False
    """Whether to warn about OOD splits whose size is far from the rule's shares."""
    strict: bool = False
    """Whether an unreadable row is an error."""
    max_atoms: int = MAX_ATOMS
    """Limit of the atoms of a molecule; larger ones are unreadable."""
    executor: BlockExecutor
    """Parses blocks of SMILES."""
    progress: Progress = ignore_progress
    """Called with the number of parsed rows."""


def open_molecules(
    request: MoleculeRequest, description: CorpusDescription, stream: np.random.Generator
) -> PreparedDataset:
    """Parse the SMILES and split the rows."""
    try:
        from gsx.stages.chem.smiles_reader import RDKIT_VERSION
    except ImportError as error:
        raise UsageError(
            f"{description.name} needs RDKit and SciPy. Install them with "
            "`pip install 'gsx[pipeline]'`."
        ) from error
    parsed = read_smiles(
        request.smiles,
        request.executor,
        request.max_atoms,
        lambda done: request.progress(done, len(request.labels.y), "rows parsed"),
    )
    _check(request, parsed)
    rows = np.arange(parsed.count) if request.unreadable_placed else parsed.rows
    domains = _domains(request, parsed, rows)
    preset_split = None if request.preset_split is None else request.preset_split[rows]
    assignment = assign_splits(
        domains,
        request.rule,
        stream,
        where=request.where,
        preset_split=preset_split,
        label=request.labels.label[rows],
    )
    warnings = ratio_warnings(assignment, request.rule, "graphs") if request.check_ratios else ()
    if request.infer:
        features = _features(ATOM_FEATURES)
        assignment = infer_environments(
            assignment, parsed.sizes, lambda pool: embed_graphs(parsed.take(pool), features), stream
        )
    inside = np.searchsorted(rows, parsed.rows)
    split, env_id, domain = (
        assignment.split[inside],
        assignment.env_id[inside],
        domains.number[inside],
    )

    def build(name: str, start: int, stop: int) -> GraphTable:
        chosen = np.flatnonzero(split == SPLITS.index(name))[start:stop]
        row = parsed.rows[chosen]
        y, label = request.labels.y[row], request.labels.label[row]
        columns = assignment_columns(row, split[chosen], env_id[chosen], domain[chosen], y, label)
        table = parsed.take(chosen)
        return replace(table, graph={**columns, **table.graph})

    sizes = split_counts(split)
    return PreparedDataset(
        info=corpus_info(request, description, assignment),
        split_sizes=sizes,
        build=build,
        dropped=_dropped(parsed),
        warnings=(*empty_split_warnings(sizes), *warnings, *filter(None, [assignment.note])),
        summary={"rdkit": RDKIT_VERSION, "rows": split_counts(assignment.split)},
    )


def corpus_info(
    request: MoleculeRequest, description: CorpusDescription, assignment: SplitAssignment
) -> CorpusInfo:
    """Describe the corpus."""
    labels = request.labels
    return CorpusInfo(
        name=description.name,
        task=labels.task,
        metric=labels.metric,
        outputs=labels.outputs,
        domain=request.domain,
        domains=assignment.domains.texts(),
        environments=environment_table(assignment),
        columns=corpus_columns(
            outputs=len(labels.outputs),
            num_features=len(ATOM_FEATURES),
            feature_dtype=FEATURE_DTYPE,
            feature_words=_features(ATOM_FEATURES),
            edge_features=len(BOND_FEATURES),
            edge_feature_dtype=FEATURE_DTYPE,
            edge_feature_words=_features(BOND_FEATURES),
            extras=_EXTRAS,
        ),
        num_features=len(ATOM_FEATURES),
        description=description.description,
        licence=description.licence,
        citation=description.citation,
    )


def _check(request: MoleculeRequest, parsed: ParsedMolecules) -> None:
    if not len(parsed.rows):
        raise StageError(f"{request.where}: none of its {parsed.count} SMILES is readable")
    if request.strict:
        reject_unreadable(request.where, _dropped(parsed), parsed.count)


def reject_unreadable(where: str, dropped: Iterable[Dropped], count: int) -> None:
    """Reject a table of ``count`` rows if some of them are unreadable."""
    for entry in dropped:
        if entry.reason == UNREADABLE:
            examples = "".join(f"\n  {example}" for example in entry.examples[:10])
            more = "\n  …" if entry.count > 10 else ""
            raise StageError(
                f"{where}: {entry.count} of {count} SMILES are unreadable:"
                f"{examples}{more}\nRemove --strict to continue without these rows."
            )


def _domains(request: MoleculeRequest, parsed: ParsedMolecules, rows: Ints) -> ItemDomains:
    """Return the domains of rows; the size of an unreadable row is its number of characters."""
    if request.domain == "size":
        atoms = np.zeros(parsed.count, dtype=np.int64)
        atoms[parsed.rows] = parsed.sizes
        atoms[parsed.refused.rows] = parsed.refused.lengths
        keys, number = np.unique(atoms[rows], return_inverse=True)
        return ItemDomains(keys.tolist(), number, "atoms")
    if request.domain == "scaffold":
        code = np.full(parsed.count, len(parsed.scaffolds), dtype=np.int64)
        code[parsed.rows] = parsed.scaffold
        return coded_domains((*parsed.scaffolds, ""), code[rows], "scaffolds", numbered=True)
    if request.column is None:
        raise StageError(f"{request.where}: no domain `{request.domain}`")
    return coded_domains(request.column.values, request.column.code[rows], request.domain)


def _dropped(parsed: ParsedMolecules) -> tuple[Dropped, ...]:
    if not parsed.refused:
        return ()
    examples = tuple(f"row {row}: {reason}" for row, reason in parsed.refused.reasons.items())
    return (
        Dropped(
            reason=UNREADABLE,
            count=len(parsed.refused),
            examples=examples,
        ),
    )


def _features(words: Mapping[str, tuple[str, ...]]) -> tuple[Feature, ...]:
    return tuple(Feature(name=name, words=categories) for name, categories in words.items())
