"""`gsx predict`: predict labels of molecules in a table, or of the graphs or nodes of a corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gsx.errors import UsageError
from gsx.pipeline.commands.option_values import TABLES
from gsx.pipeline.commands.resolve_corpus import resolve_corpus
from gsx.pipeline.predict import (
    Columns,
    PredictedBlock,
    SmilesRequest,
    load_ensemble,
    predict_corpus,
    predict_smiles,
)
from gsx.stages.chem.limits import MAX_ATOMS
from gsx.stages.nn.device import Device
from gsx.stages.train.ensemble import Ensemble
from gsx.stages.train.model_set import config_differences
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.corpus import Corpus

_Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRequest:
    """What to predict: a table of molecules, or a corpus."""

    data: str | Artifact
    smiles_column: str | None = None
    keep: tuple[str, ...] = ()
    max_atoms: int | None = None
    splits: tuple[str, ...] = ()
    selection: str | None = None
    device: Device = "auto"

    def __post_init__(self) -> None:
        if self.is_table and self.splits:
            raise UsageError("--split applies to a corpus; a table of molecules has no splits.")
        for name in ("smiles_column", "keep", "max_atoms"):
            value = getattr(self, name)
            if not self.is_table and value not in (None, ()):
                option = name.replace("_", "-")
                raise UsageError(f"--{option} applies to a table (.csv or .tsv), not to a corpus.")
            if name == "max_atoms" and isinstance(value, int) and value < 1:
                raise UsageError(f"--max-atoms must be at least 1; got {value}")

    @property
    def is_table(self) -> bool:
        """Whether the data are a table of molecules."""
        if not isinstance(self.data, str):
            return False
        return self.data.lower().endswith(TABLES) and not Path(self.data).is_dir()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPrediction:
    """An ensemble and the data that it predicts."""

    request: PredictionRequest
    models: tuple[Artifact, ...]
    ensemble: Ensemble
    corpus: Corpus | None
    """None: a table of molecules."""
    differences: list[str]
    """Options other than the seed in which the models differ."""
    counts: dict[str, int] = field(default_factory=lambda: {"rows": 0, "missing": 0, "unknown": 0})
    """Rows that were predicted, that have no prediction, and that have unknown categories."""

    def notes(self) -> list[str]:
        """Return what a reader of the predictions should know."""
        notes = []
        if not self.ensemble.named:
            notes.append(
                "the training corpus is not in the store: outputs have no names, and categories "
                "that no training graph has are not reported"
            )
        if self.differences:
            differences = ", ".join(self.differences)
            notes.append(f"the models differ in more than the seed: {differences}")
        return notes

    def columns(self, progress: _Progress) -> Iterator[Columns]:
        """Yield the columns of consecutive rows, and count them."""
        for block in self._blocks(progress):
            self.counts["rows"] += len(next(iter(block.columns.values())))
            self.counts["missing"] += block.missing
            self.counts["unknown"] += block.unknown
            yield block.columns

    def _blocks(self, progress: _Progress) -> Iterator[PredictedBlock]:
        if self.corpus is not None:
            return predict_corpus(self.ensemble, self.corpus, self.request.splits or None, progress)
        table = SmilesRequest(
            path=Path(str(self.request.data)),
            smiles_column=self.request.smiles_column,
            keep=self.request.keep,
            max_atoms=self.request.max_atoms or MAX_ATOMS,
            progress=progress,
        )
        return predict_smiles(self.ensemble, table)


def open_prediction(
    models: Sequence[Artifact], request: PredictionRequest, store: Store
) -> OpenPrediction:
    """Load the models of an ensemble and open the data."""
    corpus = None if request.is_table else Corpus(resolve_corpus(store, request.data))
    ensemble = load_ensemble(
        store,
        models,
        selection=request.selection,
        device=request.device,
        corpora=() if corpus is None else (corpus,),
    )
    return OpenPrediction(
        request=request,
        models=tuple(models),
        ensemble=ensemble,
        corpus=corpus,
        differences=config_differences(models) if len(models) > 1 else [],
    )


def count_notes(counts: dict[str, int]) -> list[str]:
    """Return a sentence about rows with problems, or nothing."""
    problems = [
        f"{counts[name]:,} {text}"
        for name, text in (
            ("missing", "without a prediction"),
            ("unknown", "with categories that no training graph has"),
        )
        if counts[name]
    ]
    return [f"{' and '.join(problems)}; see the column `problem`"] if problems else []
