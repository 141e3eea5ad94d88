"""Read files written by ``torch.save`` without executing pickled code.

torch unpickles only tensors and plain containers (``weights_only``). ``Data`` objects of PyG, as
saved by PyG and GOOD, are read as dictionaries: an empty placeholder class replaces each class of
PyG, so no code of the file or of PyG runs, and files of any PyG version can be read. All other
pickled objects are rejected by name.
"""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gsx.errors import StageError, UsageError
from gsx.ragged import Array, Ints, pointers
from gsx.stages.prepare.readers.archives import MAX_UNPACKED_BYTES, MAX_UNPACKED_RATIO, Archive

CONVERT_HINT = (
    "Convert the dataset in Python: "
    '`torch.save([graph.to_dict() for graph in dataset], "plain.pt")`'
)
"""Instruction for converting any PyG dataset to a file that gsx reads."""
_PYG_CLASSES = (
    "torch_geometric.data.data.Data",
    "torch_geometric.data.data.DataEdgeAttr",
    "torch_geometric.data.data.DataTensorAttr",
    "torch_geometric.data.storage.GlobalStorage",
)
_NUM_NODES = "_num_nodes"
"""Field with the number of nodes of each collated graph; ``num_nodes`` is then their sum."""
_RECONSTRUCT = ("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct")
"""Function that NumPy uses to unpickle arrays, in older and newer versions."""


class _Placeholder:
    """Replacement for a PyG object: holds its fields and has no methods."""


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


def load_pt(path: Path, where: str) -> Any:  # noqa: ANN401
    """Return the content of a file: containers, numbers, text, tensors, arrays, placeholders."""
    try:
        import torch
        from torch.serialization import get_unsafe_globals_in_checkpoint
    except ImportError as error:
        raise UsageError(
            f"{where} needs torch. Install it with `pip install 'gsx[learn]'`."
        ) from error
    if not zipfile.is_zipfile(path):
        raise StageError(
            f"{where} was not written by torch.save of torch 1.6 or later. Load it in its original "
            "environment and save it again."
        )
    Archive(path, where)  # rejects zip files with an excessive unpacked size
    try:
        with _safe_globals(_allowed()):
            forbidden = sorted(set(get_unsafe_globals_in_checkpoint(path)))
            if not forbidden:
                return torch.load(path, map_location="cpu", weights_only=True)
    # A damaged file makes torch raise dozens of undocumented exception types.
    except Exception as error:
        message = str(error).strip().splitlines() or [type(error).__name__]
        raise StageError(f"{where} cannot be read: {message[0]}") from error
    raise StageError(
        f"{where} contains pickled objects ({', '.join(forbidden[:5])}). gsx reads tensors and PyG "
        f"Data objects only and never executes pickled code. {CONVERT_HINT}."
    )


def _allowed() -> list[Any]:
    """Return the allowed globals: placeholders for PyG classes, and NumPy arrays."""
    reconstruct = np.zeros(1).__reduce__()[0]
    return [
        *((type("Placeholder", (_Placeholder,), {}), name) for name in _PYG_CLASSES),
        *((reconstruct, name) for name in _RECONSTRUCT),
        (np.ndarray, "numpy.ndarray"),
        (np.dtype, "numpy.dtype"),
        *(type(np.dtype(code)) for code in "?bBhHiIlLqQefd"),
    ]


@contextlib.contextmanager
def _safe_globals(allowed: list[Any]) -> Iterator[None]:
    """Allow only these globals; PyG registers its own classes once it is imported."""
    from torch.serialization import add_safe_globals, clear_safe_globals, get_safe_globals

    before = get_safe_globals()
    clear_safe_globals()
    add_safe_globals(allowed)
    try:
        yield
    finally:
        clear_safe_globals()
        add_safe_globals(before)


def read_pt_graphs(path: Path, where: str) -> GraphFields:
    """Read the graphs of a file: a list of graphs, one graph, or graphs collated by PyG."""
    limit = max(MAX_UNPACKED_BYTES, MAX_UNPACKED_RATIO * path.stat().st_size)
    content = load_pt(path, where)
    if isinstance(content, tuple):
        return _collated(content, where, limit)
    if isinstance(content, list):
        return _concatenate([_fields(graph, where) for graph in content], where, limit)
    return _concatenate([_fields(content, where)], where, limit)


def _fields(value: object, where: str) -> dict[str, Any]:
    """Return the fields of one graph, without those that are None."""
    fields = value if isinstance(value, Mapping) else _placeholder_fields(value)
    if fields is None or not all(isinstance(key, str) for key in fields):
        raise StageError(
            f"{where}: expected a graph, a list of graphs or the output of InMemoryDataset.save, "
            f"with each graph a dict of tensors (found {type(value).__name__}). {CONVERT_HINT}."
        )
    return {key: field for key, field in fields.items() if field is not None}


def _placeholder_fields(value: object) -> dict[str, Any] | None:
    if not isinstance(value, _Placeholder):
        return None
    fields = dict(vars(value))
    store = fields.get("_store")
    if isinstance(store, _Placeholder):
        inner = vars(store).get("_mapping")
        fields = dict(inner) if isinstance(inner, Mapping) else {}
        fields |= {key: field for key, field in vars(store).items() if key == _NUM_NODES}
    return fields


def _concatenate(graphs: list[dict[str, Any]], where: str, limit: int) -> GraphFields:
    """Concatenate the fields of separate graphs."""
    if not graphs:
        raise StageError(f"{where} contains no graphs.")
    names = {name: None for graph in graphs for name in graph}
    values, unread, size = {}, [], 0
    for name in names:
        arrays = [_to_array(graph[name], name, where, limit) for graph in graphs if name in graph]
        size += sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
        _check_size(size, where, limit)
        joined = _join(arrays) if len(arrays) == len(graphs) else None
        if joined is None:
            unread.append(name)
        else:
            values[name] = joined
    return GraphFields(len(graphs), values, tuple(unread))


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


def _collated(content: tuple[Any, ...], where: str, limit: int) -> GraphFields:
    """Read the output of PyG's ``InMemoryDataset``: concatenated fields and their slices."""
    fields = _fields(content[0] if content else None, where)
    slices = content[1] if len(content) > 1 else None
    if slices is None:
        return _concatenate([fields], where, limit)
    if not isinstance(slices, Mapping):
        raise StageError(
            f"{where}: expected fields and a dict of slices (found {type(slices).__name__} as the "
            f"second element). {CONVERT_HINT}."
        )
    node_counts = fields.pop(_NUM_NODES, None)
    if isinstance(node_counts, list):
        fields["num_nodes"] = node_counts
        slices = {**slices, "num_nodes": np.arange(len(node_counts) + 1)}
    values, unread, size, counts = {}, [], 0, set()
    for name, value in fields.items():
        if name not in slices:
            unread.append(name)
            continue
        ptr: Any = _to_array(slices[name], "slices", where, limit)
        array: Any = value if _is_texts(value) else _to_array(value, name, where, limit)
        size += array.nbytes if isinstance(array, np.ndarray) else 0
        _check_size(size, where, limit)
        if not isinstance(array, np.ndarray | list):
            unread.append(name)
            continue
        _check_slices(ptr, len(array), f"{where}: slices of `{name}`")
        counts.add(len(ptr) - 1)
        values[name] = (ptr.astype(np.int64), array)
    if len(counts) != 1:
        raise StageError(
            f"{where}: the slices of all fields must have the same number of graphs "
            f"(found {sorted(counts) or 'none'}). {CONVERT_HINT}."
        )
    return GraphFields(counts.pop(), values, tuple(unread))


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _check_slices(ptr: object, rows: int, where: str) -> None:
    valid = (
        isinstance(ptr, np.ndarray)
        and ptr.ndim == 1
        and ptr.dtype.kind in "iu"
        and len(ptr) > 1
        and ptr[0] == 0
        and ptr[-1] == rows
        and bool((np.diff(ptr.astype(np.int64)) >= 0).all())
    )
    if not valid:
        raise StageError(f"{where} must increase from 0 to the number of rows, {rows:,}.")


def _check_size(size: int, where: str, limit: int) -> None:
    if size > limit:
        raise StageError(f"{where} contains tensors that expand to more than {limit:,} bytes.")


def _to_array(value: object, name: str, where: str, limit: int) -> object:
    """Return numbers and tensors as an array with at least one axis, text as is, else None."""
    if isinstance(value, bool | int | float):
        array = np.array([value])
    elif isinstance(value, list) and value and all(type(item) in (int, float) for item in value):
        array = np.array(value)
    elif isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "untyped_storage"):
        array = _tensor_array(value, f"{where}: `{name}`", limit)
    else:
        return value if isinstance(value, str) else None
    if array.dtype.kind not in "biuf":
        return None
    array = array.reshape(1) if array.ndim == 0 else array
    if name == "edge_index":
        if array.ndim != 2 or array.shape[0] != 2 or array.dtype.kind not in "iu":
            raise StageError(
                f"{where}: `edge_index` must be an integer tensor of shape [2, E] (found "
                f"{array.dtype} of shape {list(array.shape)})."
            )
        return np.ascontiguousarray(array.T)
    return array


def _tensor_array(tensor: Any, where: str, limit: int) -> Array:  # noqa: ANN401
    import torch

    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_complex():
        raise StageError(
            f"{where} is not a dense real tensor (layout {tensor.layout}). Convert it with "
            "`.to_dense()` and save the file again."
        )
    _check_size(tensor.numel() * tensor.element_size(), where, limit)
    plain = tensor.detach()
    plain = plain.float() if plain.dtype in (torch.bfloat16, torch.float16) else plain
    array: Array = plain.resolve_neg().numpy()
    return array
