"""Headers of Parquet pages, compared with the footer before Arrow decodes the pages.

Arrow allocates what a page header declares, even if the footer lists less. A header is a struct in
Thrift's compact protocol: fields with a type and the distance to the previous field number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from gsx.errors import ArtifactError

MAX_HEADER_BYTES = 1 << 16
"""Length of a page header above which a shard is refused."""

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY = range(1, 9)
_STRUCT = 12
_UNCOMPRESSED, _COMPRESSED = 2, 3
_DICTIONARY = 7
_TYPE = 1
_PAGE_KINDS = {5: 0, _DICTIONARY: 2, 8: 3}
"""Fields of a page header that describe a data page, a dictionary page and a data page of version
2, and the type of page in the header."""
_NUM_VALUES = 1


_VALUE = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
_SIZES = rb"\x15(%s)\x15(%s)\x15%s" % ((_VALUE,) * 3)
"""Uncompressed size, stored size and checksum of a page."""
_HEADER = re.compile(
    rb"\x15\x00%s\x1c\x15(%s)(?:\x15%s){3}(?:\x1c\x00)?\x00\x00"  # a data page
    rb"|\x15\x04%s\x3c\x15(%s)\x15%s[\x11\x12]?\x00\x00"  # a dictionary page
    % (_SIZES, _VALUE, _VALUE, _SIZES, _VALUE, _VALUE),
    re.DOTALL,
)
"""A header as Arrow writes it for pages without statistics, which is most of them."""


class Chunk(NamedTuple):
    """The pages of one column in one row group, as the footer describes them."""

    name: str
    start: int
    size: int
    """Bytes of all pages with their headers."""
    values: int
    """Values of all data pages."""
    uncompressed: int
    """Bytes of all pages with their headers, uncompressed."""
    is_bounded: bool = False
    """Whether its pages need no check: a column of scalars has one value per row of the row group,
    for any number in its pages, and a few bytes of zstd decode to at most 32,768 times their
    size."""


def check_pages(chunk: Chunk, read: Callable[[int, int], bytes], where: str) -> None:
    """Raise ArtifactError if the page headers of a chunk declare other sizes than the footer.

    ``read`` returns bytes of the file from an offset and a length.
    """
    whole = read(chunk.start, chunk.size) if chunk.size <= MAX_HEADER_BYTES else None
    position = values = uncompressed = 0
    try:
        while position < chunk.size:
            if whole is None:
                length = min(MAX_HEADER_BYTES, chunk.size - position)
                data, offset = read(chunk.start + position, length), 0
            else:
                data, offset = whole, position
            end, body, size, in_page, is_dictionary = read_page_header(data, offset)
            if body < 0 or size < 0 or in_page < 0 or (is_dictionary and in_page > size):
                break  # the sums differ from those of the footer
            position += end - offset + body
            uncompressed += end - offset + size
            if not is_dictionary:
                values += in_page
    except (IndexError, KeyError, ValueError) as error:
        raise ArtifactError(
            f"{where} is damaged: a page of `{chunk.name}` has no valid header: {error!r}"
        ) from error
    actual, listed = (
        (position, values, uncompressed),
        (chunk.size, chunk.values, chunk.uncompressed),
    )
    if actual != listed:
        raise ArtifactError(
            f"{where} is damaged: the pages of `{chunk.name}` declare {values} values and "
            f"{uncompressed} bytes, its footer {chunk.values} values and {chunk.uncompressed} bytes"
        )


def read_page_header(data: bytes, at: int) -> tuple[int, int, int, int, bool]:
    """Return the end of the page header at ``at`` and what it declares.

    This is the stored and the uncompressed size of the page, its number of values, and whether it
    is a dictionary. Raise ValueError, KeyError or IndexError if the bytes are no page header.
    """
    match = _HEADER.match(data, at)
    if match is None:
        end, fields, values = parse_page_header(data, at)
        return end, fields[_COMPRESSED], fields[_UNCOMPRESSED], values, fields[0] == _DICTIONARY
    is_dictionary = match[1] is None
    size, body, num_values = map(
        _decode, match.groups()[3:] if is_dictionary else match.groups()[:3]
    )
    return match.end(), body, size, num_values, is_dictionary


def _decode(data: bytes) -> int:
    value = 0
    for byte in reversed(data):
        value = value << 7 | byte & 127
    return (value >> 1) ^ -(value & 1)


def parse_page_header(data: bytes, at: int) -> tuple[int, dict[int, int], int]:
    """Return the end of the page header at ``at``, its integer fields, and its number of values.

    Field 0 holds the number of the field that describes the kind of page. Raise ValueError or
    IndexError if the bytes are no page header.
    """
    fields: dict[int, int] = {}
    number, values = 0, -1
    while head := data[at]:
        at += 1
        kind = head & 15
        if head < 16:
            number, at = _integer(data, at)
        else:
            number += head >> 4
        if kind == _I32:
            byte = data[at]
            if byte < 128:
                at += 1
                fields[number] = (byte >> 1) ^ -(byte & 1)
            else:
                fields[number], at = _integer(data, at)
        elif kind == _STRUCT and number in _PAGE_KINDS:
            if 0 in fields:
                raise ValueError("a page of two kinds")
            fields[0] = number
            values, at = _page(data, at)
        else:
            at = _skip(data, at, kind)
    if _PAGE_KINDS[fields[0]] != fields[_TYPE]:
        raise ValueError("a page whose type differs from its description")
    return at + 1, fields, values


def _page(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of values in the description of a page, and its end."""
    number, values = 0, -1
    while head := data[at]:
        at += 1
        kind = head & 15
        if head < 16:
            number, at = _integer(data, at)
        else:
            number += head >> 4
        if kind == _I32:
            value, at = _integer(data, at)
            if number == _NUM_VALUES:
                values = value
        elif kind == _STRUCT:
            at = _skip_statistics(data, at)
        else:
            at = _skip(data, at, kind)
    return values, at + 1


def _skip_statistics(data: bytes, at: int) -> int:
    """Return the end of a struct that holds no other struct."""
    while head := data[at]:
        at = _integer(data, at + 1)[1] if head < 16 else at + 1
        at = _skip(data, at, head & 15)
    return at + 1


def _skip(data: bytes, at: int, kind: int) -> int:
    """Return the end of a plain value; page headers contain no lists, sets or maps."""
    if kind == _BINARY:
        length, at = _integer(data, at, zigzag=False)
        return at + length
    if kind in (_TRUE, _FALSE):
        return at
    if kind in (_I16, _I32, _I64):
        return _integer(data, at)[1]
    if kind == _BYTE:
        return at + 1
    if kind == _DOUBLE:
        return at + 8
    raise ValueError(f"a field of type {kind}")


def _integer(data: bytes, at: int, *, zigzag: bool = True) -> tuple[int, int]:
    """Return the variable-length integer at ``at``, of at most 10 bytes, and its end."""
    value = shift = 0
    for _ in range(10):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return ((value >> 1) ^ -(value & 1)) if zigzag else value, at
        shift += 7
    raise ValueError("an integer of more than 10 bytes")
