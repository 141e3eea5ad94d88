"""Read result files and tables of published scores, which may come from an unknown author.

Every field that a command uses has a type here. Other fields are kept as they are.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

import msgspec
from msgspec import Meta

from gsx import typed_values
from gsx.errors import UsageError
from gsx.limits import JSON_BYTES
from gsx.names import MAX_NAME, shown
from gsx.schema import Metric
from gsx.storage.artifacts.digest import read_at_most
from gsx.storage.artifacts.safe_files import open_user_file
from gsx.storage.corpora.quality_types import Score

REQUIRED_KEYS = {"dataset", "method", "seed", "metric", "ood_test"}
MODEL_KEYS = ("model_key", "corpus_key", "selection")
"""Fields that commands need to read the model of a run."""

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Key = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Rule = Literal["ood_val", "id_val", "augmented", "last"]
Integer = Annotated[int, Meta(ge=-(1 << 53), le=1 << 53)]
Number = Score | None


class UnsealedFields(TypedDict):
    """When the predictions of a run were scored, and with how many others."""

    time: Annotated[str, Meta(max_length=64)]
    runs: Integer
    models: Key


class ResultFields(TypedDict):
    """Fields of a result file that commands use."""

    dataset: Name
    method: Name
    seed: Integer
    metric: Metric
    ood_test: Number
    id_test: NotRequired[Number]
    ood_val: NotRequired[Number]
    selection: NotRequired[Rule]
    epochs: NotRequired[Integer | None]
    model_key: NotRequired[Key]
    corpus_key: NotRequired[Key]
    scores: NotRequired[dict[str, dict[str, Number]]]
    sealed: NotRequired[bool]
    unsealed: NotRequired[UnsealedFields]


PUBLISHED_COLUMNS = ("split", "method", "dataset", "mean", "std")


def read_result_file(path: Path) -> dict[str, Any] | None:
    """Return the content of a result file; None for another JSON document."""
    try:
        document = json.loads(_read(path))
    except (ValueError, RecursionError) as error:  # also integers of many digits, deep nesting
        raise UsageError(f"{path}: invalid JSON ({error}). Remove the file.") from error
    if not (isinstance(document, dict) and document.keys() >= REQUIRED_KEYS):
        return None
    try:
        typed_values.convert(document, ResultFields)
    except (msgspec.ValidationError, RecursionError, OverflowError) as error:
        raise UsageError(f"{path} is not a result file: {error}. Remove the file.") from error
    return document


def require_fields(path: Path, document: Mapping[str, Any], *names: str) -> None:
    """Raise UsageError unless a result file has these fields."""
    missing = [name for name in names if name not in document]
    if missing:
        raise UsageError(
            f"{path} has no `{missing[0]}`. Write the file again with `gsx train … --results`."
        )


def published_rows(path: Path) -> Iterator[tuple[str, str, float, float]]:
    """Yield method, dataset, mean and standard deviation of published OOD scores."""
    problem = f"{path} is not a table of published scores"
    try:
        rows = list(csv.DictReader(io.StringIO(_read(path), newline="")))
    except (csv.Error, UnicodeDecodeError) as error:
        raise UsageError(f"{problem}: {error}.") from error
    for row in rows:
        split, method, dataset, *texts = (row.get(name) or "" for name in PUBLISHED_COLUMNS)
        if not (split and method and dataset):
            raise UsageError(f"{problem}: a row lacks one of {', '.join(PUBLISHED_COLUMNS)}.")
        if split == "ood":
            scores = [_finite(text) for text in texts]
            if None in scores:
                raise UsageError(f"{problem}: a score of {shown(method)} is not a number.")
            mean, std = cast("list[float]", scores)
            yield method, dataset, mean, std


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _read(path: Path) -> str:
    """Return the text of a regular file of limited size."""
    try:
        with open_user_file(path) as stream:
            data = read_at_most(stream, JSON_BYTES.value + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    if len(data) > JSON_BYTES.value:
        raise UsageError(
            f"{path} is larger than the limit of {JSON_BYTES.value:,} bytes. {JSON_BYTES.advice}"
        )
    return data.decode("utf-8")
