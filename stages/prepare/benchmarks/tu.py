"""DD and NCI1 split by size: models train on small graphs and are tested on large ones.

The rule follows the published splits: the half with the fewest nodes is the training pool, a tenth
of which is held out as ``id_val``, and the largest tenth is ``ood_test``. The published protocol
omits the graphs in between and validates on small graphs only (``protocol = "paper"``); by default
they are ``ood_val`` (``protocol = "mid"``). Test graphs are the published ones. The held-out graphs
of the pool were never published and are drawn from a random stream of gsx. The publication has no
environments; here they are size ranges with about the same number of graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Ints
from gsx.schema import SPLITS, CorpusInfo
from gsx.seeds import rng
from gsx.stages.prepare.dataset import (
    DatasetFamily,
    DatasetMetadata,
    DatasetRequest,
    PreparedDataset,
    RawFile,
    check_environments,
    reject_num_graphs,
    resolve_options,
)
from gsx.stages.prepare.readers.parsed import one_way_warning, table_columns
from gsx.stages.prepare.readers.tu import TuGraphs, read_tu
from gsx.stages.prepare.split_methods import OOD_VAL, UNUSED, split_counts
from gsx.stages.prepare.splitting import (
    SplitAssignment,
    SplitRule,
    assign_splits,
    assignment_columns,
    environment_table,
    sorted_domains,
    split_slicer,
)
from gsx.storage.artifacts.manifest import Dropped

ENVIRONMENTS = 5
_RULE = SplitRule(
    kind="quantile",
    train=0.5,
    val=0.4,
    held_out=0.1,
    held_out_of="pool",
    id_test=False,
    environments=ENVIRONMENTS,
)
_COUNTS = {"dd-size": (533, 59, 0, 468, 118), "nci1-size": (1942, 215, 0, 1541, 412)}
_RAW = {
    "dd-size": RawFile(
        paths=("dd/DD.zip",),
        what="DD of TUDataset (chrsmrrs.github.io/datasets, 1,178 graphs), or its one-file layout",
    ),
    "nci1-size": RawFile(
        paths=("nci1/NCI1.zip", "nci1/NCI1_TU.zip"),
        what="NCI1 of TUDataset (chrsmrrs.github.io/datasets, 4,110 graphs)",
    ),
}
_OUTPUT = {"dd-size": "not_an_enzyme", "nci1-size": "active"}
_DESCRIPTION = {
    "dd-size": "Proteins and whether each is not an enzyme; nodes are amino acids, and edges join "
    "those that are close to each other.",
    "nci1-size": "Compounds and whether each acts against lung cancer cells; nodes are atoms, and "
    "edges are bonds.",
}
_CITATION = {
    "dd-size": "P. D. Dobson, A. J. Doig. Distinguishing enzyme structures from non-enzymes "
    "without alignments. Journal of Molecular Biology 2003.",
    "nci1-size": "N. Wale, I. A. Watson, G. Karypis. Comparison of descriptor spaces for chemical "
    "compound retrieval and classification. Knowledge and Information Systems 2008.",
}
_SPLITS_CITATION = (
    " Splits follow B. Bevilacqua, Y. Zhou, B. Ribeiro. Size-Invariant Graph Representations for "
    "Graph Classification Extrapolations. ICML 2021."
)


def metadata(name: str) -> DatasetMetadata:
    """Return the metadata of a dataset."""
    counts = dict(zip(SPLITS, _COUNTS[name], strict=False))
    return DatasetMetadata(shift="size", counts=counts, raw=(_RAW[name],))


def resolve_tu_options(name: str, requested: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve the protocol and the number of environments."""
    defaults = {"protocol": "mid", "environments": ENVIRONMENTS}
    options = resolve_options(name, requested, defaults)
    check_environments(name, options["environments"])
    return options


def open_tu(request: DatasetRequest) -> PreparedDataset:
    """Read the raw file and split its graphs by size."""
    options = resolve_tu_options(request.name, request.options)
    ((raw_name, path),) = request.raw.items()
    graphs = read_tu(path, raw_name)
    label = _labels(graphs, raw_name)
    nodes = graphs.table.num_nodes
    rule = replace(_RULE, environments=options["environments"])
    stream = rng(request.seed, "prepare", request.name, "id")
    assignment = assign_splits(
        sorted_domains(nodes.tolist(), "nodes"), rule, stream, where=raw_name
    )
    split = assignment.split
    if options["protocol"] == "paper":
        split = np.where(split == OOD_VAL, UNUSED, split)
    columns = assignment_columns(
        np.arange(len(nodes)),
        split,
        assignment.env_id,
        assignment.domains.number,
        label[:, None],
        label,
    )
    table = graphs.table.with_columns(graph=columns)
    return PreparedDataset(
        info=_info(request.name, graphs, assignment),
        split_sizes=split_counts(split),
        build=split_slicer(table),
        dropped=_unused(split),
        warnings=one_way_warning(graphs.completed),
    )


def _labels(graphs: TuGraphs, name: str) -> Ints:
    """Return labels as 0 and 1, in the order of the values in the file."""
    if graphs.labels is None:
        raise StageError(f"{name} has no graph labels. Expected {_what(name)}.")
    classes, label = np.unique(graphs.labels, return_inverse=True)
    if len(classes) != 2:
        raise StageError(
            f"{name} has {len(classes)} classes, {classes[:5].tolist()}; expected two. Expected "
            f"file: {_what(name)}."
        )
    return label


def _what(raw_name: str) -> str:
    return next(raw.what for raw in _RAW.values() if raw_name in raw.paths)


def _unused(split: Ints) -> tuple[Dropped, ...]:
    count = int((split == UNUSED).sum())
    if not count:
        return ()
    reason = "graphs of sizes between training and testing, which the published protocol leaves out"
    return (Dropped(reason=reason, count=count, examples=()),)


def _info(name: str, graphs: TuGraphs, assignment: SplitAssignment) -> CorpusInfo:
    return CorpusInfo(
        name=name,
        task="binary",
        metric="mcc",
        outputs=(_OUTPUT[name],),
        domain="size",
        domains=assignment.domains.texts(),
        environments=environment_table(assignment),
        columns=table_columns(graphs.table, graphs.node_words, graphs.edge_words, outputs=1),
        num_features=graphs.table.dense("node", "node_feat").shape[1],
        description=(
            f"{_DESCRIPTION[name]} Training graphs are smaller than those of ood_val, which "
            "are smaller than those of ood_test. Class frequencies shift with size, so accuracy is "
            "misleading."
        ),
        licence="free for research (TUDataset)",
        citation=_CITATION[name] + _SPLITS_CITATION,
    )


FAMILY = DatasetFamily(
    names=tuple(_COUNTS),
    metadata=metadata,
    size=reject_num_graphs,
    options=resolve_tu_options,
    open=open_tu,
)
