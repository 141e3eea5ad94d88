"""Corpora of molecules from SMILES: the graphs, where they go, and what could not be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gsx.columns import Column, CorpusInfo, Feature, corpus_columns
from gsx.errors import StageError, UsageError
from gsx.ragged import Array, Ints, Ragged, text_rows, texts_of
from gsx.stages.datasets.family import Source
from gsx.stages.datasets.labels import Labels
from gsx.stages.datasets.placing import (
    Domains,
    Key,
    Placed,
    Rule,
    builder,
    domains_of,
    empty_split_warnings,
    environments,
    infer_environments,
    place,
    placed_columns,
)
from gsx.stages.datasets.workers import Block, spread, worker_count
from gsx.stages.kernels.atoms import ATOM_FEATURES, BOND_FEATURES, FEATURE_DTYPE
from gsx.stages.kernels.clusters import embed_graphs
from gsx.stages.kernels.splits import split_counts
from gsx.storage.manifest import Dropped
from gsx.table import GraphTable, concat

if TYPE_CHECKING:
    from gsx.stages.kernels.chem import Molecules

BLOCK = 2048
"""SMILES that one process reads at a time."""
_LISTED = 1000
"""Dropped rows that the manifest lists one by one."""
_EXTRAS = (
    Column(name="smiles", axis="graph", dtype="text", ragged=True,
           doc="SMILES as in the raw file; node i is its i-th atom"),
    Column(name="scaffold", axis="graph", dtype="text", ragged=True,
           doc="SMILES of the Bemis-Murcko scaffold without chirality; empty without rings"),
)  # fmt: skip
SOURCES = (
    "gsx.stages.datasets.molecules",
    "gsx.stages.datasets.placing",
    "gsx.stages.datasets.tables",
    "gsx.stages.kernels.atoms",
    "gsx.stages.kernels.chem",
    "gsx.stages.kernels.splits",
)
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
    smiles: Sequence[str]
    labels: Labels
    domain: str
    """``size``, ``scaffold``, or the name of ``column``."""
    column: Sequence[Key] | None = None
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
        from gsx.stages.kernels.chem import RDKIT_VERSION
    except ImportError as error:
        raise UsageError(
            f"{about.name} needs RDKit and SciPy. Install them: `pip install 'gsx[pipeline]'`."
        ) from error
    found = read_smiles(asked.smiles)
    _check(asked, found)
    rows = np.arange(len(asked.smiles)) if asked.unreadable_placed else found.rows
    domains = _domains(asked, found, rows)
    given = None if asked.given is None else asked.given[rows]
    placed = place(domains, asked.rule, stream, where=asked.where, given=given)
    if asked.infer:
        placed = infer_environments(
            placed,
            found.table.num_nodes,
            lambda pool: embed_graphs(found.table.take(pool), _features(ATOM_FEATURES)),
            stream,
        )
    inside = np.searchsorted(rows, found.rows)
    columns = placed_columns(
        found.rows,
        placed.split[inside],
        placed.env_id[inside],
        domains.number[inside],
        asked.labels.y[found.rows],
        asked.labels.label[found.rows],
    )
    table = found.table.with_columns(
        graph={
            **columns,
            "smiles": text_rows([asked.smiles[row] for row in found.rows.tolist()]),
            "scaffold": text_rows(found.scaffolds),
        }
    )
    sizes = split_counts(placed.split[inside])
    return Source(
        info=corpus_info(asked, about, placed),
        split_sizes=sizes,
        build=builder(table),
        dropped=_dropped(found.refused),
        warnings=empty_split_warnings(sizes),
        summary={"rdkit": RDKIT_VERSION, "rows": split_counts(placed.split)},
    )


def read_smiles(texts: Sequence[str], workers: int | None = None) -> Molecules:
    """Read many SMILES, in several processes where there are many."""
    from gsx.stages.kernels.chem import Molecules, read_molecules

    if len(texts) <= BLOCK:
        return read_molecules(texts)
    starts = range(0, len(texts), BLOCK)
    blocks = (_text_arrays(texts[start : start + BLOCK], "smiles") for start in starts)
    count = min(worker_count() if workers is None else workers, len(starts))
    tables, rows, scaffolds, refused = [], [], list[str](), dict[int, str]()
    for start, found in zip(starts, spread("smiles", blocks, count), strict=True):
        tables.append(
            GraphTable(
                found["node_ptr"],
                found["edge_ptr"],
                node={"node_feat": found["node_feat"]},
                edge={name: found[name] for name in ("edge_src", "edge_dst", "edge_attr")},
            )
        )
        rows.append(start + found["rows"])
        scaffolds += _arrays_text(found, "scaffold")
        reasons = _arrays_text(found, "reason")
        refused |= dict(zip((start + found["refused"]).tolist(), reasons, strict=True))
    return Molecules(concat(tables), np.concatenate(rows), tuple(scaffolds), refused)


def read_block(block: Block) -> dict[str, Array]:
    """Read the SMILES of a block of ``workers``."""
    from gsx.stages.kernels.chem import read_molecules

    found = read_molecules(_arrays_text(block, "smiles"))
    table = found.table
    return {
        "node_ptr": table.node_ptr,
        "edge_ptr": table.edge_ptr,
        "node_feat": table.dense("node", "node_feat"),
        **{name: table.dense("edge", name) for name in ("edge_src", "edge_dst", "edge_attr")},
        "rows": found.rows,
        "refused": np.array(list(found.refused), dtype=np.int64),
        **_text_arrays(found.scaffolds, "scaffold"),
        **_text_arrays(list(found.refused.values()), "reason"),
    }


def _text_arrays(texts: Sequence[str], name: str) -> dict[str, Array]:
    rows = text_rows(texts)
    return {f"{name}_ptr": rows.ptr, f"{name}_bytes": rows.values}


def _arrays_text(block: Block, name: str) -> list[str]:
    return texts_of(Ragged(block[f"{name}_ptr"], block[f"{name}_bytes"]))


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


def _check(asked: Asked, found: Molecules) -> None:
    if not len(found.rows):
        raise StageError(f"{asked.where}: not one of its {len(asked.smiles)} SMILES can be read")
    if asked.strict and found.refused:
        shown = "".join(f"\n  row {row}: {why}" for row, why in list(found.refused.items())[:10])
        more = "\n  …" if len(found.refused) > 10 else ""
        raise StageError(
            f"{asked.where}: {len(found.refused)} of {len(asked.smiles)} SMILES cannot be read:"
            f"{shown}{more}\nLeave out --strict to go on without these rows."
        )


def _domains(asked: Asked, found: Molecules, rows: Ints) -> Domains:
    """Return the domains of rows; what cannot be read counts characters and has no scaffold."""
    if asked.domain == "size":
        atoms = np.array([len(text) for text in asked.smiles])
        atoms[found.rows] = found.table.num_nodes
        return domains_of(atoms[rows].tolist(), "atoms")
    if asked.domain == "scaffold":
        scaffolds = [""] * len(asked.smiles)
        for row, scaffold in zip(found.rows.tolist(), found.scaffolds, strict=True):
            scaffolds[row] = scaffold
        return domains_of([scaffolds[row] for row in rows.tolist()], "scaffolds", numbered=True)
    if asked.column is None:
        raise StageError(f"{asked.where}: no domain `{asked.domain}`")
    return domains_of([asked.column[row] for row in rows.tolist()], asked.domain)


def _dropped(refused: Mapping[int, str]) -> tuple[Dropped, ...]:
    if not refused:
        return ()
    examples = tuple(f"row {row}: {reason}" for row, reason in list(refused.items())[:_LISTED])
    return (
        Dropped(
            reason="rows of the raw file that RDKit cannot read",
            count=len(refused),
            examples=examples,
        ),
    )


def _features(words: Mapping[str, tuple[str, ...]]) -> tuple[Feature, ...]:
    return tuple(Feature(name=name, words=each) for name, each in words.items())
