"""Values in pickles of tensors, and one function per class or function that such pickles call.

The functions only check the arguments and return a plain value, a `TensorView` of bytes in the
file, a `NumpyArray` with bytes of the pickle, or a `PygObject` that holds fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gsx.ragged import Array


class PickleError(Exception):
    """Content that is damaged, or that ``torch.save`` does not write for tensors."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """Name of a class or function in the file."""

    name: str


@dataclass(frozen=True, slots=True)
class Storage:
    """Values of tensors: one member of the archive."""

    dtype: str
    """Name of the torch type; ``byte`` for storages without a type."""
    key: str
    """Name of the member below ``data/``."""
    count: int
    """Number of values, or of bytes without a type."""


@dataclass(frozen=True, slots=True)
class TensorView:
    """A dense tensor: a view of the values of a storage."""

    storage: Storage
    dtype: str
    """Name of the torch type."""
    offset: int
    """Index of the first value in the storage."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Distance of neighbors along every axis, in values; never negative."""
    negative: bool = False
    """Whether the values are to be negated."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A value that is not read, with a description."""

    what: str
    tensor: bool = False
    """Whether it is a tensor without plain values."""


@dataclass(slots=True)
class PygObject:
    """An object of a class of PyG: only its fields."""

    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class NumpyType:
    """Type of a NumPy array, such as ``<f8``."""

    code: str
    order: str = "="

    def dtype(self) -> np.dtype[Any]:
        """Return the type."""
        return np.dtype(self.order + self.code)


@dataclass(slots=True)
class NumpyArray:
    """A NumPy array, whose bytes are in the pickle; None before its state is read."""

    array: Array | None = None


PYG_CLASSES = frozenset(
    f"torch_geometric.data.{name}"
    for name in (
        "data.Data", "data.DataEdgeAttr", "data.DataTensorAttr", "storage.GlobalStorage",
    )
)  # fmt: skip
STORAGE_TYPES = {
    "torch.DoubleStorage": "float64", "torch.FloatStorage": "float32",
    "torch.HalfStorage": "float16", "torch.BFloat16Storage": "bfloat16",
    "torch.LongStorage": "int64", "torch.IntStorage": "int32", "torch.ShortStorage": "int16",
    "torch.CharStorage": "int8", "torch.ByteStorage": "uint8", "torch.BoolStorage": "bool",
    "torch.ComplexFloatStorage": "complex64", "torch.ComplexDoubleStorage": "complex128",
    "torch.storage.UntypedStorage": "byte", "torch.UntypedStorage": "byte",
}  # fmt: skip
"""Class of a storage → name of its type."""
ITEM_SIZES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2,
    "int8": 1, "uint8": 1, "bool": 1, "complex64": 8, "complex128": 16, "byte": 1, "uint16": 2,
    "uint32": 4, "uint64": 8, "complex32": 4,
}  # fmt: skip
"""Name of a type → bytes per value."""
_TORCH_TYPES = {f"torch.{name}" for name in ITEM_SIZES if name != "byte"}
_NUMPY_CODE = re.compile(r"b1|[iu][1248]|f[248]")
INERT = frozenset(
    ("numpy.ndarray", "torch.Tensor", "torch._tensor.Tensor", *STORAGE_TYPES, *_TORCH_TYPES)
)
"""Names that only occur as arguments."""
MAX_KEY = 1 << 63
"""Limit of integers that are used as counts or keys."""


def is_count(value: object) -> bool:
    """Return whether a value is a non-negative integer of at most 63 bits."""
    return type(value) is int and 0 <= value < MAX_KEY


def _is_shape(value: object) -> bool:
    return type(value) is tuple and len(value) <= 32 and all(is_count(size) for size in value)


def require(condition: object, what: str) -> None:
    """Raise PickleError about ``what`` unless the condition holds."""
    if not condition:
        raise PickleError(f"damaged {what}")


def _tensor(view: tuple[Any, ...], dtype: str | None, metadata: object) -> object:
    """Return the tensor of a storage, an offset, a shape and strides."""
    storage, offset, shape, strides = view
    require(isinstance(storage, Storage) and is_count(offset), "tensor")
    require(_is_shape(shape) and _is_shape(strides) and len(shape) == len(strides), "tensor")
    dtype = storage.dtype if dtype is None else dtype
    if dtype.startswith("complex") or dtype == "byte":
        return Unsupported(f"type {dtype}", tensor=True)
    require(not metadata or (type(metadata) is dict and metadata.keys() <= {"neg"}), "tensor")
    negative = bool(metadata["neg"]) if type(metadata) is dict and metadata else False
    require(not (negative and dtype == "bool"), "tensor")
    return TensorView(storage, dtype, offset, shape, strides, negative)


def _rebuild_tensor(args: tuple[Any, ...]) -> object:
    require(len(args) == 4, "tensor")
    return _tensor(args, None, None)


def _rebuild_tensor_v2(args: tuple[Any, ...]) -> object:
    require(len(args) in (6, 7), "tensor")
    return _tensor(args[:4], None, args[6] if len(args) == 7 else None)


def _rebuild_tensor_v3(args: tuple[Any, ...]) -> object:
    require(len(args) in (7, 8), "tensor")
    dtype = args[6].name if isinstance(args[6], Symbol) else ""
    if dtype not in _TORCH_TYPES:
        return Unsupported("type of the tensor", tensor=True)
    return _tensor(args[:4], dtype.removeprefix("torch."), args[7] if len(args) == 8 else None)


def _rebuild_parameter(args: tuple[Any, ...]) -> object:
    require(args and isinstance(args[0], TensorView | Unsupported), "parameter")
    return args[0]


def _rebuild_from_type(args: tuple[Any, ...]) -> object:
    require(len(args) == 4 and isinstance(args[0], Symbol) and type(args[2]) is tuple, "tensor")
    build = _TENSORS.get(args[0].name)
    require(build, "tensor")
    assert build is not None
    return build(args[2])


def _sparse(args: tuple[Any, ...]) -> object:
    layout = args[0].what if args and isinstance(args[0], Unsupported) else "layout unknown"
    return Unsupported(layout, tensor=True)


def _layout(args: tuple[Any, ...]) -> object:
    require(len(args) == 1 and isinstance(args[0], str), "layout")
    return Unsupported(f"layout {args[0][:40]}")


def _size(args: tuple[Any, ...]) -> object:
    require(len(args) == 1 and _is_shape(args[0]), "size")
    return args[0]


def _dict(args: tuple[Any, ...]) -> object:
    require(not args, "dict")
    return {}


def _encode(args: tuple[Any, ...]) -> object:
    require(len(args) == 2 and isinstance(args[0], str), "bytes")
    require(args[1] in ("latin1", "latin-1"), "bytes")
    try:
        return args[0].encode("latin-1")
    except UnicodeEncodeError as error:
        raise PickleError("damaged bytes") from error


def _bytes(args: tuple[Any, ...]) -> object:
    require(not args, "bytes")
    return b""


def _numpy_type(args: tuple[Any, ...]) -> object:
    require(args and isinstance(args[0], str), "array type")
    if not _NUMPY_CODE.fullmatch(args[0]):
        raise PickleError(f"unsupported array type {args[0][:20]!r}")
    return NumpyType(args[0])


def _numpy_array(args: tuple[Any, ...]) -> object:
    require(len(args) == 3 and args[0] == Symbol("numpy.ndarray"), "array")
    return NumpyArray()


def _unread(name: str, *, tensor: bool = False) -> Callable[[tuple[Any, ...]], object]:
    return lambda _: Unsupported(name, tensor=tensor)


_TENSORS: dict[str, Callable[[tuple[Any, ...]], object]] = {
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._utils._rebuild_qtensor": _unread("quantized", tensor=True),
    "torch._utils._rebuild_meta_tensor_no_storage": _unread("device meta", tensor=True),
    "torch._utils._rebuild_nested_tensor": _unread("layout torch.jagged", tensor=True),
}
"""Function that rebuilds a tensor → function that parses its arguments."""
FUNCTIONS: dict[str, Callable[[tuple[Any, ...]], object]] = {
    **_TENSORS,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
    "torch.serialization._get_layout": _layout,
    "torch.Size": _size,
    "torch.device": _unread("device"),
    "collections.OrderedDict": _dict,
    "collections.Counter": _unread("Counter"),
    "_codecs.encode": _encode,
    "builtins.bytes": _bytes,
    "builtins.bytearray": _unread("bytearray"),
    "builtins.set": _unread("set"),
    "builtins.complex": _unread("complex"),
    "numpy.dtype": _numpy_type,
    "numpy.core.multiarray._reconstruct": _numpy_array,
    "numpy._core.multiarray._reconstruct": _numpy_array,
}
"""Function or class that is called → function that parses its arguments."""


def set_array_state(target: NumpyArray, state: Any) -> None:  # noqa: ANN401
    """Fill an array; its bytes must have exactly the size of its shape."""
    require(type(state) is tuple and len(state) == 5 and target.array is None, "array")
    _, shape, dtype, fortran_order, data = state
    require(_is_shape(shape) and isinstance(dtype, NumpyType) and type(data) is bytes, "array")
    count = 1
    for size in shape:
        count *= size
    if count * dtype.dtype().itemsize != len(data):
        raise PickleError(
            f"an array of shape {str(list(shape))[:60]} has {len(data):,} bytes instead of "
            f"{count * dtype.dtype().itemsize:,}"
        )
    flat = np.frombuffer(data, dtype=dtype.dtype())
    flat = flat.view(np.uint8) != 0 if flat.dtype.kind == "b" else flat
    try:
        target.array = flat.reshape(shape, order="F" if fortran_order else "C")
    except ValueError as error:
        raise PickleError(f"damaged array: {error}") from error


def set_type_state(target: NumpyType, state: Any) -> None:  # noqa: ANN401
    """Set the byte order of a type."""
    require(type(state) is tuple and len(state) >= 5 and state[1] in ("<", ">", "|", "="), "type")
    require(state[2] is None and state[3] is None and state[4] is None, "array type")
    target.order = state[1]
