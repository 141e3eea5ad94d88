"""Read the JSON files and array files of an artifact into typed values.

No content of a file raises another error than ArtifactError.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np

from gsx import typed_values
from gsx.errors import ArtifactError, SchemaError
from gsx.limits import ARRAYS_BYTES, JSON_BYTES, Limit
from gsx.ragged import Array
from gsx.storage.artifacts.location import Location

_T = TypeVar("_T")


class JsonFile:
    """Type of a JSON file of an artifact; of several types, the first that fits."""

    def __init__(self, *types: Any, limit: Limit = JSON_BYTES) -> None:  # noqa: ANN401
        self._types = types
        self._limit = limit

    def read(self, location: Location, name: str) -> Any:  # noqa: ANN401
        """Read the file; raise ArtifactError unless it fits."""
        data, where = read_file(location, name, limit=self._limit), f"{location.url}/{name}"
        *alternatives, last = self._types
        for type_ in alternatives:
            with contextlib.suppress(ArtifactError):
                return decode_json(data, type_, where)
        return decode_json(data, last, where)


JsonFiles = Mapping[str, JsonFile]
"""Every JSON file of a kind of artifact, by path."""
ANY_JSON = JsonFile(msgspec.Raw)
"""A JSON file that no reader of gsx uses: its syntax is checked, and nothing is built from it."""


def decode_json(data: bytes, type_: type[_T], where: str) -> _T:
    """Decode a JSON document from an untrusted source."""
    try:
        return typed_values.decode_json(data, type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ArtifactError(f"{where} cannot be read: {error}") from error


def convert(value: object, type_: type[_T], where: str) -> _T:
    """Convert an untyped JSON value, for example the summary of a manifest, to a type."""
    try:
        return typed_values.convert(value, type_)
    except (msgspec.ValidationError, SchemaError, RecursionError, OverflowError) as error:
        raise ArtifactError(f"{where} cannot be read: {error}") from error


def read_json(
    location: Location, name: str, type_: type[_T], *, limit: int | Limit = JSON_BYTES
) -> _T:
    """Read a JSON file of an artifact."""
    return decode_json(read_file(location, name, limit=limit), type_, f"{location.url}/{name}")


def read_file(location: Location, name: str, *, limit: int | Limit) -> bytes:
    """Return the bytes of a file of an artifact."""
    try:
        return location.read_bytes(name, limit=limit)
    except OSError as error:
        raise ArtifactError(
            f"{location.url}/{name} cannot be read: {error.strerror or error}"
        ) from error


def read_arrays(location: Location, name: str) -> dict[str, Array]:
    """Read a safetensors file; its header is checked against its size before anything is allocated.

    Every real number must be finite or NaN only where the reader expects it.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    data = read_file(location, name, limit=ARRAYS_BYTES)
    try:
        return load(data)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ArtifactError(f"{location.url}/{name} cannot be read: {error}") from error


def array(
    arrays: dict[str, Array], name: str, dtype: str, shape: tuple[int | None, ...], where: str
) -> Array:
    """Return an array of a file; raise ArtifactError unless it has this type and shape.

    None in ``shape`` stands for any length.
    """
    values = arrays.get(name)
    if (
        values is None
        or values.dtype != np.dtype(dtype)
        or len(values.shape) != len(shape)
        or any(
            wanted not in (None, actual) for wanted, actual in zip(shape, values.shape, strict=True)
        )
    ):
        found = "it is missing" if values is None else f"{values.dtype} of shape {values.shape}"
        wanted_shape = tuple("any" if length is None else length for length in shape)
        raise ArtifactError(
            f"{where}: `{name}` must be {dtype} of shape {wanted_shape} ({found}). Get the "
            "artifact from its source again, or build it again with `--force`."
        )
    return values
