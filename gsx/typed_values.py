"""Typed decoding of JSON documents and plain values, safe to call from several threads.

msgspec collects the fields of a type when the type is first used. Two threads that do this at the
same time crash the process with a segmentation fault (msgspec 0.22). The functions of this module
prepare a type once, under a lock; the package uses no other way to decode into types.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T")
_lock = threading.Lock()
_decoders: dict[Any, Any] = {}


def decode_json(data: bytes | str, type_: type[_T]) -> _T:
    """Return the value of a JSON document; raise what `msgspec.json.decode` raises."""
    return json_decoder(type_).decode(data)


def decode_msgpack(data: bytes, type_: type[_T]) -> _T:
    """Return the value of a MessagePack document; raise what `msgspec.msgpack.decode` raises."""
    json_decoder(type_)  # prepares the type
    return msgspec.msgpack.decode(data, type=type_)


def convert(value: object, type_: type[_T]) -> _T:
    """Return a plain value as a type; raise what `msgspec.convert` raises."""
    json_decoder(type_)  # prepares the type
    return msgspec.convert(value, type_)


def json_decoder(type_: type[_T]) -> msgspec.json.Decoder[_T]:
    """Return the decoder of a type; it is constructed once per process."""
    if type_ not in _decoders:
        with _lock:
            if type_ not in _decoders:
                _decoders[type_] = msgspec.json.Decoder(type_)
    decoder: msgspec.json.Decoder[_T] = _decoders[type_]
    return decoder
