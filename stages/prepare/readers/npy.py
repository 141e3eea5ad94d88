"""Parse arrays in the npy format of NumPy; nothing is allocated beyond the bytes of the file."""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array

_KINDS = "biufU"
"""Kinds of types that are accepted: booleans, integers, floats, texts."""


def parse_npy(data: bytes, where: str) -> Array:
    """Return the array in the content of an npy file; ``where`` denotes it in error messages.

    The result shares memory with ``data`` and cannot be written to.
    """
    stream = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, fortran_order, dtype = _read_header(stream)
    # A damaged header makes NumPy raise many undocumented types, such as tokenize.TokenError.
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise StageError(f"{where} cannot be read: {reason[:200]}.") from error
    if dtype.hasobject:
        raise StageError(f"{where} cannot be read: it is pickled, and gsx never unpickles.")
    if dtype.kind not in _KINDS or not dtype.itemsize:
        raise StageError(f"{where} cannot be read: it has the type {str(dtype)[:40]}.")
    available = len(data) - stream.tell()
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize != available:
        raise StageError(
            f"{where} cannot be read: its header declares {dtype} values of shape "
            f"{str(list(shape))[:80]}, but the file has {available:,} bytes of values."
        )
    try:
        flat: Array = np.frombuffer(data, dtype=dtype, count=count, offset=stream.tell())
        flat = flat.view(np.uint8) != 0 if dtype.kind == "b" else flat
        return flat.reshape(shape, order="F" if fortran_order else "C")
    except ValueError as error:  # an empty array with another dimension that overflows
        raise StageError(f"{where} cannot be read: {error}.") from error


def _read_header(stream: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(stream)
    raise ValueError(f"unknown version {version[0]}.{version[1]} of the npy format")
