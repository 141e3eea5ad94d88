"""Parse the part of the pickle format that ``torch.save`` writes for tensors and containers.

Nothing is imported, called or allocated on behalf of the file. Names of classes and functions are
compared with the few in `tensor_values`; other names are collected in ``forbidden``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from gsx.stages.prepare.readers.tensor_values import (
    FUNCTIONS,
    INERT,
    MAX_KEY,
    PYG_CLASSES,
    STORAGE_TYPES,
    NumpyArray,
    NumpyType,
    PickleError,
    PygObject,
    Storage,
    Symbol,
    Unsupported,
    is_count,
    require,
    set_array_state,
    set_type_state,
)

_STOP = ord(".")
_FEW_CONTAINERS = 1_000_000
_BYTES_PER_CONTAINER = 4
"""Above ``_FEW_CONTAINERS``, a pickle has at least this number of bytes per list, tuple or
dict."""


class TensorPickle:
    """Parser of one pickle of protocol 2."""

    def __init__(self, data: bytes) -> None:
        self.forbidden: set[str] = set()
        """Names of classes and functions that are not understood."""
        self._data = data
        self._position = 0
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._containers = 0
        self._max_containers = max(_FEW_CONTAINERS, len(data) // _BYTES_PER_CONTAINER)

    def parse(self) -> Any:  # noqa: ANN401
        """Return the content; raise PickleError if it is damaged."""
        try:
            return self._parse()
        except (IndexError, KeyError, struct.error, UnicodeDecodeError, TypeError) as error:
            raise PickleError(f"damaged content ({type(error).__name__})") from error

    def _parse(self) -> Any:  # noqa: ANN401
        data = self._data
        while True:
            code = data[self._position]
            self._position += 1
            if code == _STOP:
                return self._stack.pop()
            handler = self._HANDLERS.get(code)
            if handler is None:
                raise PickleError(f"unsupported instruction {code}")
            handler(self)

    def _read(self, size: int) -> bytes:
        chunk = self._data[self._position : self._position + size]
        if len(chunk) < size:
            raise PickleError("the content ends early")
        self._position += size
        return chunk

    def _read_line(self) -> str:
        end = self._data.find(b"\n", self._position, self._position + 500)
        if end < 0:
            raise PickleError("damaged name")
        line = self._data[self._position : end].decode("utf-8")
        self._position = end + 1
        return line

    def _unsigned(self, size: int) -> int:
        return int.from_bytes(self._read(size), "little")

    def _count_container(self) -> None:
        self._containers += 1
        if self._containers > self._max_containers:
            raise PickleError(f"more than {self._max_containers:,} lists, tuples and dicts")

    def _pop_to_mark(self) -> list[Any]:
        items = self._stack
        self._stack = self._marks.pop()
        return items

    def _mark(self) -> None:
        self._count_container()
        self._marks.append(self._stack)
        self._stack = []

    def _name(self) -> None:
        module, name = self._read_line(), self._read_line()
        if module == "__builtin__":
            module = "builtins"
        full = f"{module}.{name}"
        if full not in FUNCTIONS and full not in INERT and full not in PYG_CLASSES:
            self.forbidden.add(full)
        self._stack.append(Symbol(full))

    def _call(self) -> None:
        args, function = self._stack.pop(), self._stack.pop()
        require(isinstance(function, Symbol) and type(args) is tuple, "call")
        if function.name in self.forbidden:
            self._stack.append(Unsupported("object"))
            return
        build = FUNCTIONS.get(function.name)
        if build is None:
            raise PickleError(f"unsupported call of {function.name}")
        self._stack.append(build(args))

    def _new_object(self) -> None:
        args, cls = self._stack.pop(), self._stack.pop()
        require(isinstance(cls, Symbol) and type(args) is tuple, "object")
        self._count_container()
        if cls.name in PYG_CLASSES:
            self._stack.append(PygObject())
        elif cls.name in self.forbidden:
            self._stack.append(Unsupported("object"))
        else:
            raise PickleError(f"unsupported object of {cls.name}")

    def _set_state(self) -> None:
        state, target = self._stack.pop(), self._stack[-1]
        if isinstance(target, PygObject):
            require(type(state) is dict and all(type(key) is str for key in state), "object")
            target.fields.update(state)
        elif isinstance(target, NumpyArray):
            set_array_state(target, state)
        elif isinstance(target, NumpyType):
            set_type_state(target, state)
        elif not isinstance(target, Unsupported | dict):  # attributes of these are not read
            raise PickleError("unsupported state")

    def _stored_values(self) -> None:
        identity = self._stack.pop()
        require(type(identity) is tuple and len(identity) == 5, "storage")
        kind, cls, key, _, count = identity
        require(kind == "storage" and isinstance(cls, Symbol) and type(key) is str, "storage")
        require(cls.name in STORAGE_TYPES and is_count(count), "storage")
        self._stack.append(Storage(STORAGE_TYPES[cls.name], key, count))

    def _store_items(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if isinstance(target, Unsupported):
            return
        require(type(target) is dict and len(items) % 2 == 0, "dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            is_small = type(key) is int and -MAX_KEY < key < MAX_KEY
            require(is_small or key is None or type(key) in (str, bool), "key of a dict")
            target[key] = value

    def _set_item(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._store_items([key, value])

    def _set_items(self) -> None:
        self._store_items(self._pop_to_mark())

    def _append(self) -> None:
        item = self._stack.pop()
        require(type(self._stack[-1]) is list, "list")
        self._stack[-1].append(item)

    def _append_all(self) -> None:
        items = self._pop_to_mark()
        require(type(self._stack[-1]) is list, "list")
        self._stack[-1].extend(items)

    def _empty(self, kind: type) -> None:
        self._count_container()
        self._stack.append(kind())

    def _tuple_of_marked(self) -> None:
        self._count_container()
        items = self._pop_to_mark()
        self._stack.append(tuple(items))

    def _tuple_of(self, size: int) -> None:
        self._count_container()
        require(len(self._stack) >= size, "tuple")
        self._stack[-size:] = [tuple(self._stack[-size:])]

    def _push(self, value: object) -> None:
        self._stack.append(value)

    def _text(self) -> None:
        self._stack.append(self._read(self._unsigned(4)).decode("utf-8"))

    def _byte_text(self) -> None:
        self._stack.append(self._read(self._unsigned(1)).decode("ascii"))

    def _number(self, format_: str) -> None:
        self._stack.append(struct.unpack(format_, self._read(struct.calcsize(format_)))[0])

    def _long_number(self) -> None:
        data = self._read(self._unsigned(1))
        self._stack.append(int.from_bytes(data, "little", signed=True))

    def _protocol(self) -> None:
        version = self._unsigned(1)
        if version != 2:
            raise PickleError(f"pickle protocol {version}; torch.save writes 2")

    def _remember(self, size: int) -> None:
        self._memo[self._unsigned(size)] = self._stack[-1]

    def _recall(self, size: int) -> None:
        self._stack.append(self._memo[self._unsigned(size)])

    _HANDLERS: ClassVar[Mapping[int, Callable[[TensorPickle], None]]] = {
        0x80: _protocol,
        ord("("): _mark,
        ord("c"): _name,
        ord("R"): _call,
        0x81: _new_object,
        ord("b"): _set_state,
        ord("Q"): _stored_values,
        ord("s"): _set_item,
        ord("u"): _set_items,
        ord("a"): _append,
        ord("e"): _append_all,
        ord("}"): lambda parser: parser._empty(dict),
        ord("]"): lambda parser: parser._empty(list),
        ord(")"): lambda parser: parser._push(()),
        ord("t"): _tuple_of_marked,
        0x85: lambda parser: parser._tuple_of(1),
        0x86: lambda parser: parser._tuple_of(2),
        0x87: lambda parser: parser._tuple_of(3),
        ord("N"): lambda parser: parser._push(None),
        0x88: lambda parser: parser._push(value=True),
        0x89: lambda parser: parser._push(value=False),
        ord("X"): _text,
        ord("U"): _byte_text,
        ord("J"): lambda parser: parser._number("<i"),
        ord("K"): lambda parser: parser._number("<B"),
        ord("M"): lambda parser: parser._number("<H"),
        ord("G"): lambda parser: parser._number(">d"),
        0x8A: _long_number,
        ord("q"): lambda parser: parser._remember(1),
        ord("r"): lambda parser: parser._remember(4),
        ord("h"): lambda parser: parser._recall(1),
        ord("j"): lambda parser: parser._recall(4),
    }
    """Instruction → method."""
