"""Read files written by ``torch.save`` without torch and without executing pickled code.

`tensor_pickle` parses the containers; tensors and arrays are views of bytes in the file, so that
nothing can enter a corpus that the file does not hold. ``Data`` objects of PyG, as saved by PyG and
GOOD, are read as dictionaries, for any version of PyG. All other pickled objects are rejected by
name.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from gsx.errors import StageError
from gsx.limits import EXPANDED_BYTES
from gsx.ragged import Array, Ints, pointers
from gsx.stages.prepare.readers.archives import Archive
from gsx.stages.prepare.readers.limits import expanded_limit
from gsx.stages.prepare.readers.names import check_name
from gsx.stages.prepare.readers.raw_files import open_raw_file
from gsx.stages.prepare.readers.tensor_pickle import TensorPickle
from gsx.stages.prepare.readers.tensor_values import (
    ITEM_SIZES,
    MAX_KEY,
    NumpyArray,
    PickleError,
    PygObject,
    Storage,
    TensorView,
    Unsupported,
)

CONVERT_HINT = (
    "Convert the dataset in Python: "
    '`torch.save([graph.to_dict() for graph in dataset], "plain.pt")`'
)
"""Instruction for converting any PyG dataset to a file that gsx reads."""
_NUM_NODES = "_num_nodes"
"""Field with the number of nodes of each collated graph; ``num_nodes`` is then their sum."""
_MAX_FIELDS = 1000
"""Distinct fields of the graphs of a file."""
_MANY_GRAPHS, _BYTES_PER_GRAPH = 1_000_000, 32
"""Above ``_MANY_GRAPHS``, a file has at least this number of bytes per graph."""
_MAX_EMPTY = 1 << 31
"""Length of the axes of a tensor without values."""
_BYTES_PER_VALUE = 8
"""Bytes that a value has in memory while graphs are built, for every type in the file."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphFields:
    """Fields of many graphs, concatenated."""

    count: int
    """Number of graphs."""
    values: Mapping[str, tuple[Ints, Array | list[str]]]
    """Name → pointers ``[G + 1]`` and values; ``edge_index`` has shape ``[E, 2]``."""
    unread: tuple[str, ...] = ()
    """Names of fields that are neither numbers nor text, or are missing in some graphs."""

    def array(self, name: str) -> tuple[Ints, Array] | None:
        """Return pointers and values of a numeric field; None if there is no such field."""
        ptr, values = self.values.get(name, (None, None))
        return (ptr, values) if ptr is not None and isinstance(values, np.ndarray) else None


def _is_zip(stream: IO[bytes]) -> bool:
    """Return whether a file has the form of a zip file, which may be damaged."""
    try:
        return zipfile.is_zipfile(stream)
    except zipfile.BadZipFile:
        return True


class PtFile:
    """The content of one file, and the arrays of its tensors."""

    def __init__(self, path: Path, where: str) -> None:
        """Parse the content; ``where`` denotes the file in error messages."""
        self.where = where
        with open_raw_file(path, where) as stream:
            if not _is_zip(stream):
                raise StageError(
                    f"{where} was not written by torch.save of torch 1.6 or later. Load it in its "
                    "original environment and save it again."
                )
        self._archive = Archive(path, where)
        self.size = self._archive.size
        """Size of the file in bytes."""
        self._storages: dict[str, bytes] = {}
        self._expanded, self._limit = 0, expanded_limit(self.size)
        pickles = [name for name in self._archive.members if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise StageError(
                f"{where} cannot be read: {len(pickles)} members are named data.pkl; expected one."
            )
        self._folder = pickles[0].removesuffix("data.pkl")
        order = f"{self._folder}byteorder"
        if order in self._archive.members and self._archive.read(order) != b"little":
            raise StageError(f"{where} cannot be read: its numbers are not little-endian.")
        pickle = TensorPickle(self._archive.read(pickles[0]))
        try:
            self.content: Any = pickle.parse()
        except PickleError as error:
            if not pickle.forbidden:
                raise StageError(f"{where} cannot be read: {error}.") from error
        if pickle.forbidden:
            names = ", ".join(sorted(pickle.forbidden)[:5])
            raise StageError(
                f"{where} contains pickled objects ({names}). gsx reads "
                "tensors and PyG Data objects only and never executes pickled code. "
                f"{CONVERT_HINT}."
            )

    def array(self, value: object, name: str) -> Array | None:
        """Return numbers and tensors as an array with at least one axis; None for other values."""
        if isinstance(value, bool | int | float):
            array = np.array([value])
        elif isinstance(value, list) and value and all(map(_is_number, value)):
            array = np.array(value)
        elif isinstance(value, NumpyArray):
            if value.array is None:
                raise StageError(f"{self.where} cannot be read: `{name}` has no values.")
            array = value.array
            self._count(array.size, name)
        elif isinstance(value, TensorView):
            array = self._tensor_array(value, name)
        elif isinstance(value, Unsupported) and value.tensor:
            raise StageError(
                f"{self.where}: `{name}` is not a dense real tensor ({value.what}). "
                "Convert it with `.to_dense()` and save the file again."
            )
        else:
            return None
        if array.dtype.kind not in "biuf":
            return None
        return array.reshape(1) if array.ndim == 0 else array

    def _tensor_array(self, view: TensorView, name: str) -> Array:
        """Return a tensor as an array; it shares memory with its storage."""
        size = ITEM_SIZES[view.dtype]
        data = self._storage(view.storage)
        count = 1
        for length in view.shape:
            count *= length
        self._count(count, name)
        if not count:
            if max(view.shape) > _MAX_EMPTY:
                raise StageError(f"{self.where}: `{name}` has the shape {list(view.shape)}.")
            return _numbers(np.empty(view.shape, dtype=_numpy_type(view.dtype)), view)
        reach = sum((n - 1) * step for n, step in zip(view.shape, view.strides, strict=True))
        needed = (view.offset + reach + 1) * size
        if needed > len(data):
            raise StageError(
                f"{self.where}: `{name}` needs {needed:,} bytes, but its storage has "
                f"{len(data):,}. Save the file again."
            )
        array: Array = np.ndarray(
            view.shape, dtype=_numpy_type(view.dtype), buffer=data, offset=view.offset * size,
            strides=[step * size if n > 1 else 0
                     for n, step in zip(view.shape, view.strides, strict=True)],
        )  # fmt: skip
        return _numbers(array, view)

    def _storage(self, storage: Storage) -> bytes:
        """Return the bytes of a storage, which must have the declared size."""
        data = self._storages.get(storage.key)
        if data is None:
            member = f"{self._folder}data/{storage.key}"
            if member not in self._archive.members:
                raise StageError(f"{self.where} cannot be read: it has no member {member[:200]}.")
            data = self._storages[storage.key] = self._archive.read(member)
        declared = storage.count * ITEM_SIZES[storage.dtype]
        if declared != len(data):
            raise StageError(
                f"{self.where} cannot be read: the storage {storage.key[:20]} declares "
                f"{declared:,} bytes, but has {len(data):,}."
            )
        return data

    def _count(self, values: int, name: str) -> None:
        """Count values that are built; views can repeat the values of a storage without end."""
        self._expanded += _BYTES_PER_VALUE * values
        if self._expanded > self._limit:
            raise StageError(
                f"{self.where}: `{name}` contains tensors that expand to more than "
                f"{self._limit:,} bytes. {EXPANDED_BYTES.advice}"
            )


def _is_number(item: object) -> bool:
    """Return whether a value is a number that fits in an array; Python integers are unbounded."""
    return type(item) is float or (type(item) is int and -MAX_KEY <= item < MAX_KEY)


def _numpy_type(dtype: str) -> np.dtype[Any]:
    """Return the type of the bytes of a tensor in NumPy."""
    code = {"bfloat16": "uint16", "bool": "uint8"}.get(dtype, dtype)
    return np.dtype(code).newbyteorder("<")


def _numbers(array: Array, view: TensorView) -> Array:
    """Return values of a type that NumPy does not have, or negated ones, as numbers."""
    if view.dtype == "bfloat16":
        array = (array.astype("<u4") << 16).view("<f4")
    elif view.dtype == "bool":
        array = array != 0
    elif view.dtype == "float16":
        array = array.astype(np.float32)
    return -array if view.negative else array


def read_pt_graphs(path: Path, where: str) -> GraphFields:
    """Read the graphs of a file: a list of graphs, one graph, or graphs collated by PyG."""
    file = PtFile(path, where)
    content = file.content
    if isinstance(content, tuple):
        return _collated(content, file)
    if isinstance(content, list):
        limit = max(_MANY_GRAPHS, file.size // _BYTES_PER_GRAPH)
        if len(content) > limit:  # a graph that is listed again has two bytes in the file
            raise StageError(f"{where} lists {len(content):,} graphs; the limit is {limit:,}.")
        return _concatenate([_fields(graph, where) for graph in content], file)
    return _concatenate([_fields(content, where)], file)


def _fields(value: object, where: str) -> dict[str, Any]:
    """Return the fields of one graph, without those that are None."""
    fields = value if type(value) is dict else _object_fields(value)
    if fields is None or not all(isinstance(key, str) for key in fields):
        raise StageError(
            f"{where}: expected a graph, a list of graphs or the output of InMemoryDataset.save, "
            f"with each graph a dict of tensors (found {_kind(value)}). {CONVERT_HINT}."
        )
    return {key: field for key, field in fields.items() if field is not None}


def _kind(value: object) -> str:
    kind = type(value).__name__
    return {"TensorView": "Tensor", "NumpyArray": "ndarray", "PygObject": "object"}.get(kind, kind)


def _object_fields(value: object) -> dict[str, Any] | None:
    if not isinstance(value, PygObject):
        return None
    fields = dict(value.fields)
    store = fields.get("_store")
    if isinstance(store, PygObject):
        inner = store.fields.get("_mapping")
        fields = dict(inner) if isinstance(inner, dict) else {}
        fields |= {key: field for key, field in store.fields.items() if key == _NUM_NODES}
    return fields


def _concatenate(graphs: list[dict[str, Any]], file: PtFile) -> GraphFields:
    """Concatenate the fields of separate graphs."""
    if not graphs:
        raise StageError(f"{file.where} contains no graphs.")
    names = {name: None for graph in graphs for name in graph}
    _check_field_names(names, file.where)
    values, unread = {}, []
    for name in names:
        arrays = [_values(graph[name], name, file) for graph in graphs if name in graph]
        joined = _join(arrays) if len(arrays) == len(graphs) else None
        if joined is None:
            unread.append(name)
        else:
            values[name] = joined
    return GraphFields(len(graphs), values, tuple(unread))


def _check_field_names(names: Mapping[str, object], where: str) -> None:
    if len(names) > _MAX_FIELDS:
        raise StageError(
            f"{where}: graphs have {len(names):,} fields; the limit is {_MAX_FIELDS:,}."
        )
    for name in names:
        check_name(name, f"{where}: the field")


def _join(arrays: list[Any]) -> tuple[Ints, Array | list[str]] | None:
    """Concatenate the values of all graphs; None if their types or shapes differ."""
    if all(isinstance(array, str) for array in arrays):
        return pointers([1] * len(arrays)), arrays
    if not all(isinstance(array, np.ndarray) for array in arrays):
        return None
    nonempty = [array for array in arrays if len(array)] or arrays[:1]
    if len({array.shape[1:] for array in nonempty}) > 1:
        return None
    return pointers([len(array) for array in arrays]), np.concatenate(nonempty)


def _collated(content: tuple[Any, ...], file: PtFile) -> GraphFields:
    """Read the output of PyG's ``InMemoryDataset``: concatenated fields and their slices."""
    where = file.where
    fields = _fields(content[0] if content else None, where)
    slices = content[1] if len(content) > 1 else None
    if slices is None:
        return _concatenate([fields], file)
    if not isinstance(slices, dict):
        raise StageError(
            f"{where}: expected fields and a dict of slices (found {_kind(slices)} as the second "
            f"element). {CONVERT_HINT}."
        )
    node_counts = fields.pop(_NUM_NODES, None)
    if isinstance(node_counts, list):
        fields["num_nodes"] = node_counts
        slices = {**slices, "num_nodes": list(range(len(node_counts) + 1))}
    _check_field_names(fields, where)
    values, unread, counts = {}, [], set()
    for name, value in fields.items():
        if name not in slices:
            unread.append(name)
            continue
        ptr = file.array(slices[name], "slices")
        array: Any = value if _is_texts(value) else _values(value, name, file)
        if not isinstance(array, np.ndarray | list):
            unread.append(name)
            continue
        checked = _checked_slices(ptr, len(array), f"{where}: slices of `{name}`")
        counts.add(len(checked) - 1)
        values[name] = (checked, array)
    if len(counts) != 1:
        raise StageError(
            f"{where}: the slices of all fields must have the same number of graphs "
            f"(found {sorted(counts) or 'none'}). {CONVERT_HINT}."
        )
    return GraphFields(counts.pop(), values, tuple(unread))


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _checked_slices(ptr: Array | None, rows: int, where: str) -> Ints:
    """Return slices as pointers; reject slices that are not pointers into ``rows`` rows."""
    if (
        ptr is None
        or ptr.ndim != 1
        or ptr.dtype.kind not in "iu"
        or len(ptr) < 2
        or ptr[0] != 0
        or ptr[-1] != rows
        or (ptr[1:] < ptr[:-1]).any()
    ):
        raise StageError(f"{where} must increase from 0 to the number of rows, {rows:,}.")
    return ptr.astype(np.int64)


def _values(value: object, name: str, file: PtFile) -> object:
    """Return a field as an array or text; None for other values."""
    if isinstance(value, str):
        return value
    array = file.array(value, name)
    if array is None or name != "edge_index":
        return array
    if array.ndim != 2 or array.shape[0] != 2 or array.dtype.kind not in "iu":
        raise StageError(
            f"{file.where}: `edge_index` must be an integer tensor of shape [2, E] (found "
            f"{array.dtype} of shape {list(array.shape)})."
        )
    return np.ascontiguousarray(array.T)
