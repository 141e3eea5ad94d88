"""Read files that torch saved, without running anything that was pickled into them.

torch unpickles tensors and plain containers alone (``weights_only``). Objects of PyG's ``Data``,
as PyG and GOOD save them, are read as what they hold: an empty class of ours stands in for each
class of PyG, so that no code of the file or of PyG runs and any version of PyG may have written it.
Everything else that is pickled is refused by name.
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
from gsx.stages.prepare.readers.archives import RATIO, SMALL, Archive

CONVERT = (
    "In Python, where the dataset can be loaded: "
    '`torch.save([graph.to_dict() for graph in dataset], "plain.pt")`'
)
"""How to turn any dataset of PyG into a file that gsx reads."""
_STAND_INS = (
    "torch_geometric.data.data.Data",
    "torch_geometric.data.data.DataEdgeAttr",
    "torch_geometric.data.data.DataTensorAttr",
    "torch_geometric.data.storage.GlobalStorage",
)
_NUM_NODES = "_num_nodes"
"""Where PyG keeps the nodes of each of many graphs; ``num_nodes`` is then their sum."""
_RECONSTRUCT = ("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct")
"""What NumPy pickles arrays by, in its older and newer versions."""


class _Held:
    """Stands in for an object of PyG: its fields, and nothing that runs."""


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """What graphs hold, by name."""

    count: int
    """Graphs."""
    values: Mapping[str, tuple[Ints, Array | list[str]]]
    """Pointers ``[G + 1]`` and values, those of ``edge_index`` as ``[E, 2]``."""
    unread: tuple[str, ...] = ()
    """Names of what is neither numbers nor text, or is not in every graph."""

    def array(self, name: str) -> tuple[Ints, Array] | None:
        """Return numbers by name; None where there are none."""
        ptr, values = self.values.get(name, (None, None))
        return (ptr, values) if ptr is not None and isinstance(values, np.ndarray) else None


def load(path: Path, where: str) -> Any:  # noqa: ANN401
    """Return what a file holds: containers, numbers, text, tensors, arrays and stand-ins."""
    try:
        import torch
        from torch.serialization import get_unsafe_globals_in_checkpoint
    except ImportError as error:
        raise UsageError(
            f"{where} is a file of torch. Install it: `pip install 'gsx[learn]'`."
        ) from error
    if not zipfile.is_zipfile(path):
        raise StageError(
            f"{where} is not what torch.save writes since torch 1.6. Load it where it was made and "
            "save it again."
        )
    Archive(path, where)  # refuses zip files that unpack too far
    try:
        with _only_these(_allowed()):
            strange = sorted(set(get_unsafe_globals_in_checkpoint(path)))
            if not strange:
                return torch.load(path, map_location="cpu", weights_only=True)
    # Whatever a damaged file makes torch raise: dozens of kinds, none of them documented.
    except Exception as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise StageError(f"{where} cannot be read: {said[0]}") from error
    raise StageError(
        f"{where} holds pickled objects, {', '.join(strange[:5])}; gsx reads tensors, and Data of "
        f"PyG, and runs nothing that is pickled. {CONVERT}."
    )


def _allowed() -> list[Any]:
    """Return what a file may name: stand-ins for classes of PyG, and arrays of NumPy."""
    reconstruct = np.zeros(1).__reduce__()[0]
    return [
        *((type("Held", (_Held,), {}), name) for name in _STAND_INS),
        *((reconstruct, name) for name in _RECONSTRUCT),
        (np.ndarray, "numpy.ndarray"),
        (np.dtype, "numpy.dtype"),
        *(type(np.dtype(code)) for code in "?bBhHiIlLqQefd"),
    ]


@contextlib.contextmanager
def _only_these(allowed: list[Any]) -> Iterator[None]:
    """Allow these names and no others: PyG, once imported, allows its real classes."""
    from torch.serialization import add_safe_globals, clear_safe_globals, get_safe_globals

    before = get_safe_globals()
    clear_safe_globals()
    add_safe_globals(allowed)
    try:
        yield
    finally:
        clear_safe_globals()
        add_safe_globals(before)


def read_fields(path: Path, where: str) -> Fields:
    """Return the graphs of a file: a list of them, one, or many that PyG collated."""
    most = max(SMALL, RATIO * path.stat().st_size)
    found = load(path, where)
    if isinstance(found, tuple):
        return _collated(found, where, most)
    if isinstance(found, list):
        return _listed([_mapping(each, where) for each in found], where, most)
    return _listed([_mapping(found, where)], where, most)


def _mapping(value: object, where: str) -> dict[str, Any]:
    """Return the fields of one graph."""
    fields = value if isinstance(value, Mapping) else _held(value)
    if fields is None or not all(isinstance(key, str) for key in fields):
        raise StageError(
            f"{where} should hold a graph, a list of graphs or what InMemoryDataset saves, each "
            f"graph a dict of tensors; found {type(value).__name__}. {CONVERT}."
        )
    return {key: each for key, each in fields.items() if each is not None}


def _held(value: object) -> dict[str, Any] | None:
    if not isinstance(value, _Held):
        return None
    fields = dict(vars(value))
    store = fields.get("_store")
    if isinstance(store, _Held):
        inner = vars(store).get("_mapping")
        fields = dict(inner) if isinstance(inner, Mapping) else {}
        fields |= {key: each for key, each in vars(store).items() if key == _NUM_NODES}
    return fields


def _listed(graphs: list[dict[str, Any]], where: str, most: int) -> Fields:
    if not graphs:
        raise StageError(f"{where} holds no graphs.")
    names = {name: None for graph in graphs for name in graph}
    values, unread, size = {}, [], 0
    for name in names:
        parts = [_plain(graph[name], name, where, most) for graph in graphs if name in graph]
        size += sum(part.nbytes for part in parts if isinstance(part, np.ndarray))
        _check_size(size, where, most)
        joined = _joined(parts) if len(parts) == len(graphs) else None
        if joined is None:
            unread.append(name)
        else:
            values[name] = joined
    return Fields(len(graphs), values, tuple(unread))


def _joined(parts: list[Any]) -> tuple[Ints, Array | list[str]] | None:
    """Put the values of all graphs one after the other; None where they do not go together."""
    if all(isinstance(part, str) for part in parts):
        return pointers([1] * len(parts)), parts
    if not all(isinstance(part, np.ndarray) for part in parts):
        return None
    full = [part for part in parts if len(part)] or parts[:1]
    if len({part.shape[1:] for part in full}) > 1:
        return None
    return pointers([len(part) for part in parts]), np.concatenate(full)


def _collated(found: tuple[Any, ...], where: str, most: int) -> Fields:
    """Read what InMemoryDataset of PyG saves: fields of all graphs, and where those of each are."""
    fields = _mapping(found[0] if found else None, where)
    slices = found[1] if len(found) > 1 else None
    if slices is None:
        return _listed([fields], where, most)
    if not isinstance(slices, Mapping):
        raise StageError(
            f"{where} should hold fields and slices; the second is {type(slices).__name__}."
        )
    counts_of_nodes = fields.pop(_NUM_NODES, None)
    if isinstance(counts_of_nodes, list):
        fields["num_nodes"] = counts_of_nodes
        slices = {**slices, "num_nodes": np.arange(len(counts_of_nodes) + 1)}
    values, unread, size, counts = {}, [], 0, set()
    for name, value in fields.items():
        if name not in slices:
            unread.append(name)
            continue
        ptr: Any = _plain(slices[name], "slices", where, most)
        plain: Any = value if _is_texts(value) else _plain(value, name, where, most)
        size += plain.nbytes if isinstance(plain, np.ndarray) else 0
        _check_size(size, where, most)
        if not isinstance(plain, np.ndarray | list):
            unread.append(name)
            continue
        _check_slices(ptr, len(plain), f"{where}: slices of `{name}`")
        counts.add(len(ptr) - 1)
        values[name] = (ptr.astype(np.int64), plain)
    if len(counts) != 1:
        raise StageError(f"{where}: slices are of {sorted(counts) or 'no'} graphs; expected one.")
    return Fields(counts.pop(), values, tuple(unread))


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _check_slices(ptr: object, rows: int, where: str) -> None:
    good = (
        isinstance(ptr, np.ndarray)
        and ptr.ndim == 1
        and ptr.dtype.kind in "iu"
        and len(ptr) > 1
        and ptr[0] == 0
        and ptr[-1] == rows
        and bool((np.diff(ptr.astype(np.int64)) >= 0).all())
    )
    if not good:
        raise StageError(f"{where} must rise from 0 to its {rows:,} rows.")


def _check_size(size: int, where: str, most: int) -> None:
    if size > most:
        raise StageError(f"{where} holds tensors that unpack to more than {most:,} bytes.")


def _plain(value: object, name: str, where: str, most: int) -> object:
    """Return a tensor, an array or a number as an array of at least one axis, else the value."""
    if isinstance(value, bool | int | float):
        found = np.array([value])
    elif isinstance(value, list) and value and all(type(each) in (int, float) for each in value):
        found = np.array(value)
    elif isinstance(value, np.ndarray):
        found = value
    elif hasattr(value, "untyped_storage"):
        found = _of_tensor(value, f"{where}: `{name}`", most)
    else:
        return value if isinstance(value, str) else None
    if found.dtype.kind not in "biuf":
        return None
    found = found.reshape(1) if found.ndim == 0 else found
    if name == "edge_index":
        if found.ndim != 2 or found.shape[0] != 2 or found.dtype.kind not in "iu":
            raise StageError(
                f"{where}: `edge_index` must be two rows of whole numbers; found {found.dtype} of "
                f"shape {list(found.shape)}."
            )
        return np.ascontiguousarray(found.T)
    return found


def _of_tensor(tensor: Any, where: str, most: int) -> Array:  # noqa: ANN401
    import torch

    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_complex():
        raise StageError(f"{where} is no plain tensor ({tensor.layout}). Make it dense first.")
    _check_size(tensor.numel() * tensor.element_size(), where, most)
    plain = tensor.detach()
    plain = plain.float() if plain.dtype in (torch.bfloat16, torch.float16) else plain
    found: Array = plain.resolve_neg().numpy()
    return found
