"""Predict labels of the graphs or nodes of a corpus, or of molecules in a table.

Predictions come in blocks of columns, which ``gsx.storage.sharing.table_file`` writes as CSV or
Parquet. A row that cannot be predicted has missing values and a reason in the column ``problem``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.escape import column_names
from gsx.ragged import Array, Ints, decode_texts
from gsx.schema import ORIGINS, SPLITS, CorpusInfo
from gsx.stages.block_executor import ProcessExecutor
from gsx.stages.chem.features import ATOM_FEATURES, BOND_FEATURES
from gsx.stages.chem.limits import MAX_ATOMS
from gsx.stages.nn.device import Device, resolve_device
from gsx.stages.nn.training_loop import one_thread
from gsx.stages.prepare.readers.csv_tables import Table, open_table
from gsx.stages.prepare.readers.raw_files import file_problem
from gsx.stages.prepare.readers.smiles_blocks import ParsedBlock, iter_parsed_blocks
from gsx.stages.train.classical import (
    ClassicalDescription,
    ClassicalModel,
    check_classical_fits,
)
from gsx.stages.train.data import check_corpus, sorted_table, table_columns
from gsx.stages.train.ensemble import (
    Ensemble,
    Prediction,
    combine,
    open_ensemble,
    prediction_columns,
)
from gsx.stages.train.evaluate import check_model_fits
from gsx.stages.train.known_categories import describe_unknown_categories
from gsx.stages.train.model_set import common_rule, require_distinct
from gsx.stages.train.predictions import all_node_logits, graph_predictor, require_finite
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.portable_copies import identity
from gsx.table import GraphTable

Columns = dict[str, Array | list[str]]
"""Columns of equal length, by name."""
PROBLEM = "problem"
SMILES = "smiles"
NODE_BLOCK = 1 << 16
"""Nodes per block."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PredictedBlock:
    """Predictions of consecutive rows."""

    columns: Columns
    missing: int = 0
    """Rows without a prediction."""
    unknown: int = 0
    """Rows with categories that no training graph has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmilesRequest:
    """A table of molecules to predict."""

    path: Path
    smiles_column: str | None = None
    """None: the column ``smiles``, in any case."""
    keep: tuple[str, ...] = ()
    """Columns of the table to copy."""
    max_atoms: int = MAX_ATOMS
    """Molecules with more atoms are not predicted."""
    progress: Callable[[int, int], None] = lambda _done, _total: None


def load_ensemble(
    store: Store,
    models: Sequence[Artifact],
    *,
    selection: str | None = None,
    device: Device = "auto",
    corpora: Sequence[Corpus] = (),
) -> Ensemble:
    """Load models with the weights of a selection rule; the default is the one they report.

    Their training corpora are read if they are in the store or among ``corpora``.
    """
    require_distinct(models)
    rule = selection or common_rule(models)
    training_corpora = [training_corpus(store, model, corpora) for model in models]
    return open_ensemble(models, training_corpora, rule, resolve_device(device))


def training_corpus(store: Store, model: Artifact, corpora: Sequence[Corpus] = ()) -> Corpus | None:
    """Return the corpus that a model was trained on, from ``corpora`` or the store, or None."""
    for parent in model.manifest.parents:
        for corpus in corpora:
            if parent.digest in (corpus.artifact.manifest.digest, identity(corpus.artifact).digest):
                return corpus
        stored = store.peek(parent.kind, parent.key, parent.digest)
        if stored is not None and stored.manifest.digest == parent.digest:
            return Corpus(Artifact.open(stored.location))
    return None


def predict_corpus(
    ensemble: Ensemble,
    corpus: Corpus,
    splits: Sequence[str] | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Iterator[PredictedBlock]:
    """Yield the predictions for graphs, or source nodes, of a corpus, with their labels."""
    for model, description in zip(ensemble.models, ensemble.descriptions, strict=True):
        if isinstance(description, ClassicalDescription):
            assert isinstance(model, ClassicalModel)
            check_corpus(corpus.info, model.shape.kind)
            check_classical_fits(model, corpus)
        else:
            check_corpus(corpus.info, description.shape.backbone)
            check_model_fits(description, corpus)
    if corpus.info.level == "node":
        yield from _predict_nodes(ensemble, corpus, splits)
        return
    corpus.check_splits(splits)
    names = sorted(splits or corpus.splits, key=SPLITS.index)
    available = {column.name for column in corpus.info.columns}
    columns = [*table_columns(corpus.info), "graph_id", "split", *({SMILES} & available)]
    total, done = sum(corpus.splits[name] for name in names), 0
    for table in corpus.iter_tables(split=names, columns=columns):
        graphs = sorted_table(table, corpus.info.name)
        block: Columns = {
            "graph_id": graphs.dense("graph", "graph_id"),
            "split": _words(SPLITS, graphs.dense("graph", "split")),
            "env_id": graphs.dense("graph", "env_id"),
            "origin": _words(ORIGINS, graphs.dense("graph", "origin")),
        }
        if SMILES in graphs.graph:
            block[SMILES] = decode_texts(graphs.lists("graph", SMILES))
        block |= _label_columns(graphs.dense("graph", "y"), corpus.info, taken=block)
        prediction, problems = _predict(ensemble, graphs), _problems(ensemble, graphs)
        yield _predicted_block(ensemble, block, prediction, problems)
        done += len(graphs)
        progress(done, total)


def predict_smiles(ensemble: Ensemble, request: SmilesRequest) -> Iterator[PredictedBlock]:
    """Yield the predictions for the molecules of a CSV or TSV table, in the order of its rows.

    Molecules get the atom and bond features of training data. Texts that RDKit cannot read, and
    atoms that the features cannot encode, are problems of a row. So are categories that no training
    graph has, such as an element; these molecules are predicted nevertheless.
    """
    _require_molecular(ensemble)
    problem = file_problem(request.path)
    if problem is not None:
        raise UsageError(f"{problem}. Pass a table of molecules, or a corpus.")
    table = open_table(request.path, request.path.name)
    name = request.smiles_column or _smiles_column(table)
    kept = {column: table.cells(column) for column in request.keep}
    texts = (cell.strip() for cell in table.cells(name, " Name it with `--smiles-column`."))
    start = 0
    with closing(ProcessExecutor()) as executor:
        for parsed in iter_parsed_blocks(texts, executor, request.max_atoms, scaffolds=False):
            count = len(parsed.texts)
            block: Columns = {column: list(islice(cells, count)) for column, cells in kept.items()}
            row_name, smiles_name = column_names(("row", SMILES), taken=block)
            block = {
                row_name: np.arange(start, start + count),
                **block,
                smiles_name: parsed.texts,
            }
            prediction, problems = _predict_molecules(ensemble, parsed)
            yield _predicted_block(ensemble, block, prediction, problems, len(parsed.rejected))
            start += count
            request.progress(start, table.count)


def _predict_molecules(ensemble: Ensemble, parsed: ParsedBlock) -> tuple[Prediction, list[str]]:
    """Return predictions for all texts of a block, NaN for unreadable ones, and their problems."""
    problems = [""] * len(parsed.texts)
    for row, reason in zip(parsed.rejected.tolist(), parsed.reasons, strict=True):
        problems[row] = reason
    graphs = parsed.table()
    unknown = _problems(ensemble, graphs) or [""] * len(graphs)
    for row, text in zip(parsed.rows.tolist(), unknown, strict=True):
        problems[row] = text
    prediction = _predict(ensemble, graphs)

    def scatter(values: Array | None) -> Array | None:
        if values is None:
            return None
        result = np.full((len(problems), *values.shape[1:]), np.nan)
        result[parsed.rows] = values
        return result

    mean = scatter(prediction.mean)
    assert mean is not None
    spread = Prediction(
        mean=mean,
        std=scatter(prediction.std),
        entropy=scatter(prediction.entropy),
        mutual_information=scatter(prediction.mutual_information),
    )
    return spread, problems


def _predict(ensemble: Ensemble, graphs: GraphTable) -> Prediction:
    """Return the prediction for graphs ``[G]``, which may be none."""
    if not len(graphs):
        logits = [np.zeros((0, len(ensemble.outputs)))] * len(ensemble.models)
        return _combine(ensemble, logits)
    with one_thread():
        logits = [graph_predictor(model, ensemble.device)(graphs) for model in ensemble.models]
    return _combine(ensemble, logits)


def _combine(ensemble: Ensemble, logits: list[Array]) -> Prediction:
    return combine(ensemble.task, [require_finite(values) for values in logits])


def _predict_nodes(
    ensemble: Ensemble, corpus: Corpus, splits: Sequence[str] | None
) -> Iterator[PredictedBlock]:
    table = corpus.table(columns=["graph_id", "origin", "node_split", "node_env_id", "node_y"])
    source = table.filter(table.dense("graph", "origin") == ORIGINS.index("source"))
    split = source.dense("node", "node_split")
    names = list(splits or SPLITS)
    for name in names if splits else ():
        if name not in corpus.nodes:
            raise UsageError(
                f"{corpus.info.name} has no nodes in the split `{name}`; it has: "
                f"{', '.join(corpus.nodes)}."
            )
    with one_thread():
        logits = [all_node_logits(model, corpus, ensemble.device) for model in ensemble.models]
    chosen = np.flatnonzero(np.isin(split, [SPLITS.index(name) for name in names]))
    owner = np.repeat(np.arange(len(source)), source.num_nodes)
    for start in range(0, max(len(chosen), 1), NODE_BLOCK):
        rows = chosen[start : start + NODE_BLOCK]
        block: Columns = {
            "graph_id": source.dense("graph", "graph_id")[owner[rows]],
            "node": rows - source.node_ptr[owner[rows]],
            "split": _words(SPLITS, split[rows]),
            "env_id": source.dense("node", "node_env_id")[rows],
        }
        block |= _label_columns(source.dense("node", "node_y")[rows], corpus.info, taken=block)
        prediction = _combine(ensemble, [values[rows] for values in logits])
        yield _predicted_block(ensemble, block, prediction, None)


def _predicted_block(
    ensemble: Ensemble,
    block: Columns,
    prediction: Prediction,
    problems: list[str] | None,
    missing: int = 0,
) -> PredictedBlock:
    """Add the columns of a prediction to a block, and a column of problems unless it is None."""
    taken = (*block, PROBLEM)
    block = {**block, **prediction_columns(prediction, ensemble.task, ensemble.outputs, taken)}
    if problems is None:
        return PredictedBlock(columns=block)
    (name,) = column_names((PROBLEM,), taken=block)
    unknown = sum(map(bool, problems)) - missing
    return PredictedBlock(columns={**block, name: problems}, missing=missing, unknown=unknown)


def _problems(ensemble: Ensemble, graphs: GraphTable) -> list[str] | None:
    """Return unknown categories of graphs, one text each; None if no feature has categories."""
    described = [
        describe_unknown_categories(graphs, categories)
        for categories in ensemble.categories
        if categories
    ]
    if not described:
        return None
    return [next(filter(None, texts), "") for texts in zip(*described, strict=True)]


def _label_columns(y: Array, info: CorpusInfo, taken: Iterable[str]) -> Columns:
    """Return the labels of a corpus: class name, or value per task; missing ones are empty."""
    if info.task != "classification":
        names = column_names([f"label_{name}" for name in info.outputs], taken=taken)
        return {name: y[:, number] for number, name in enumerate(names)}
    certain = np.flatnonzero((y == 1).sum(axis=1) == 1)
    labels = [""] * len(y)
    for row, code in zip(certain.tolist(), y[certain].argmax(axis=1).tolist(), strict=True):
        labels[row] = info.outputs[code]
    return {"label": labels}


def _words(vocabulary: Sequence[str], codes: Ints) -> list[str]:
    return [vocabulary[code] for code in codes.tolist()]


def _smiles_column(table: Table) -> str:
    """Return the column `smiles` of a table, in any case; else `smiles`, which does not exist."""
    matches = [name for name in table.header if name.lower() == SMILES]
    return SMILES if SMILES in matches or not matches else matches[0]


def _require_molecular(ensemble: Ensemble) -> None:
    """Raise StageError unless all models read the features of molecules."""
    atoms = tuple(map(len, ATOM_FEATURES.values()))
    bonds = tuple(map(len, BOND_FEATURES.values()))
    for description in ensemble.descriptions:
        if isinstance(description, ClassicalDescription):
            shape = description.classical
            fits = (shape.features, shape.edge_features) == (len(atoms), len(bonds))
            fits = fits and shape.kind != "node"
        else:
            network = description.shape
            fits = (network.words, network.edge_words) == (atoms, bonds)
        if not fits:
            raise StageError(
                "a model was not trained on molecules with the features that gsx computes from "
                "SMILES. Predict a corpus instead of a table."
            )
