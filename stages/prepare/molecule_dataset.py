"""Corpora of molecules from SMILES: the graphs, where they go, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.ragged import Ints
from gsx.schema import SPLITS, Column, CorpusInfo, Feature, corpus_columns
from gsx.stages.chem.features import ATOM_FEATURES, BOND_FEATURES, FEATURE_DTYPE
from gsx.stages.prepare.dataset import Source
from gsx.stages.prepare.kmeans import embed_graphs
from gsx.stages.prepare.readers.csv_tables import Coded
from gsx.stages.prepare.readers.smiles_blocks import MoleculeRows, read_smiles
from gsx.stages.prepare.split_methods import split_counts
from gsx.stages.prepare.splitting import (
    Domains,
    Placed,
    Rule,
    coded_domains,
    empty_split_warnings,
    environments,
    infer_environments,
    place,
    placed_columns,
)
from gsx.stages.prepare.targets import Labels
from gsx.storage.artifacts.manifest import Dropped
from gsx.table import GraphTable

_EXTRAS = (
    Column(name="smiles", axis="graph", dtype="text", ragged=True,
           doc="SMILES as in the raw file; node i is its i-th atom"),
    Column(name="scaffold", axis="graph", dtype="text", ragged=True,
           doc="SMILES of the Bemis-Murcko scaffold without chirality; empty without rings"),
)  # fmt: skip
UNREADABLE = "rows of the raw file that RDKit cannot read"
"""Modules whose code decides graphs and splits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a corpus says of itself."""

    name: str
    description: str
    licence: str = ""
    citation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asked:
    """Rows of a raw file, and how to split them."""

    where: str
    """Stands for the file in errors."""
    smiles: Iterable[str]
    labels: Labels
    domain: str
    """``size``, ``scaffold``, or the name of ``column``."""
    column: Coded | None = None
    """What rows are sorted by, where that is neither size nor scaffold."""
    rule: Rule
    given: Ints | None = None
    """``[n]`` split of every row, for the rule ``column``."""
    infer: bool = False
    """Whether environments are groups of molecules that look alike, not parts of the domain."""
    unreadable_placed: bool = False
    """Whether rows that cannot be read take part in the split before they are left out; not with
    ``infer``."""
    strict: bool = False
    """Whether rows that cannot be read are an error."""


def open_molecules(asked: Asked, about: About, stream: np.random.Generator) -> Source:
    """Read the SMILES, split the rows and make ready to write the graphs."""
    try:
        from gsx.stages.chem.smiles_reader import RDKIT_VERSION
    except ImportError as error:
        raise UsageError(
            f"{about.name} needs RDKit and SciPy. Install them: `pip install 'gsx[pipeline]'`."
        ) from error
    read = read_smiles(asked.smiles)
    _check(asked, read)
    rows = np.arange(read.count) if asked.unreadable_placed else read.rows
    domains = _domains(asked, read, rows)
    given = None if asked.given is None else asked.given[rows]
    placed = place(domains, asked.rule, stream, where=asked.where, given=given)
    if asked.infer:
        words = _features(ATOM_FEATURES)
        placed = infer_environments(
            placed, read.sizes, lambda pool: embed_graphs(read.take(pool), words), stream
        )
    inside = np.searchsorted(rows, read.rows)
    split, env_id, domain = placed.split[inside], placed.env_id[inside], domains.number[inside]

    def build(name: str, start: int, stop: int) -> GraphTable:
        chosen = np.flatnonzero(split == SPLITS.index(name))[start:stop]
        row = read.rows[chosen]
        y, label = asked.labels.y[row], asked.labels.label[row]
        columns = placed_columns(row, split[chosen], env_id[chosen], domain[chosen], y, label)
        table = read.take(chosen)
        return replace(table, graph={**columns, **table.graph})

    sizes = split_counts(split)
    return Source(
        info=corpus_info(asked, about, placed),
        split_sizes=sizes,
        build=build,
        dropped=_dropped(read),
        warnings=(*empty_split_warnings(sizes), *filter(None, [placed.note])),
        summary={"rdkit": RDKIT_VERSION, "rows": split_counts(placed.split)},
    )


def corpus_info(asked: Asked, about: About, placed: Placed) -> CorpusInfo:
    """Describe the corpus."""
    labels = asked.labels
    return CorpusInfo(
        name=about.name,
        task=labels.task,
        metric=labels.metric,
        outputs=labels.outputs,
        domain=asked.domain,
        domains=placed.domains.texts(),
        environments=environments(placed),
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
        description=about.description,
        licence=about.licence,
        citation=about.citation,
    )


def _check(asked: Asked, read: MoleculeRows) -> None:
    if not len(read.rows):
        raise StageError(f"{asked.where}: not one of its {read.count} SMILES can be read")
    if asked.strict:
        refuse_unreadable(asked.where, _dropped(read), read.count)


def refuse_unreadable(where: str, dropped: Iterable[Dropped], count: int) -> None:
    """Refuse a table of ``count`` rows where some of them cannot be read."""
    for lost in dropped:
        if lost.reason == UNREADABLE:
            shown = "".join(f"\n  {each}" for each in lost.examples[:10])
            more = "\n  …" if lost.count > 10 else ""
            raise StageError(
                f"{where}: {lost.count} of {count} SMILES cannot be read:"
                f"{shown}{more}\nLeave out --strict to go on without these rows."
            )


def _domains(asked: Asked, read: MoleculeRows, rows: Ints) -> Domains:
    """Return the domains of rows; what cannot be read counts characters and has no scaffold."""
    if asked.domain == "size":
        atoms = np.zeros(read.count, dtype=np.int64)
        atoms[read.rows] = read.sizes
        atoms[read.refused.rows] = read.refused.lengths
        keys, number = np.unique(atoms[rows], return_inverse=True)
        return Domains(keys.tolist(), number, "atoms")
    if asked.domain == "scaffold":
        code = np.full(read.count, len(read.scaffolds), dtype=np.int64)
        code[read.rows] = read.scaffold
        return coded_domains((*read.scaffolds, ""), code[rows], "scaffolds", numbered=True)
    if asked.column is None:
        raise StageError(f"{asked.where}: no domain `{asked.domain}`")
    return coded_domains(asked.column.values, asked.column.code[rows], asked.domain)


def _dropped(read: MoleculeRows) -> tuple[Dropped, ...]:
    if not read.refused:
        return ()
    examples = tuple(f"row {row}: {reason}" for row, reason in read.refused.reasons.items())
    return (
        Dropped(
            reason=UNREADABLE,
            count=len(read.refused),
            examples=examples,
        ),
    )


def _features(words: Mapping[str, tuple[str, ...]]) -> tuple[Feature, ...]:
    return tuple(Feature(name=name, words=each) for name, each in words.items())
