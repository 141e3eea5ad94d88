"""Change Parquet files byte by byte: footers and pages that no writer would produce."""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa

MAGIC = b"PAR1"
BOOLEANS, I32, I64, BINARY, LIST, STRUCT = (1, 2), 5, 6, 8, 9, 12


class Fields(dict):
    """A Thrift struct: field number → (type, value)."""

    def value(self, number):
        return self[number][1]

    def set(self, number, value):
        self[number] = (self[number][0], value)


def decode_struct(data, at):
    """Return the struct at ``at`` and its end."""
    fields, number = Fields(), 0
    while data[at]:
        head = data[at]
        if head >> 4:
            number, at = number + (head >> 4), at + 1
        else:
            number, at = _zigzag(data, at + 1)
        kind = head & 15
        if kind in BOOLEANS:
            fields[number] = (kind, kind == 1)
        else:
            value, at = _decode(data, at, kind)
            fields[number] = (kind, value)
    return fields, at + 1


def encode_struct(fields):
    """Return the bytes of a struct."""
    out, last = b"", 0
    for number, (kind, value) in sorted(fields.items()):
        if 0 < number - last < 16:
            out += bytes([(number - last) << 4 | kind])
        else:
            out += bytes([kind]) + _varint(_to_zigzag(number))
        out += b"" if kind in BOOLEANS else _encode(kind, value)
        last = number
    return out + b"\0"


def _decode(data, at, kind):
    if kind in (4, I32, I64):
        return _zigzag(data, at)
    if kind == 3:
        return data[at], at + 1
    if kind == BINARY:
        length, at = _unsigned(data, at)
        return data[at : at + length], at + length
    if kind == STRUCT:
        return decode_struct(data, at)
    assert kind == LIST, kind
    length, inner, at = data[at] >> 4, data[at] & 15, at + 1
    if length == 15:
        length, at = _unsigned(data, at)
    items = []
    for _ in range(length):
        item, at = _decode(data, at, inner)
        items.append(item)
    return (inner, items), at


def _encode(kind, value):
    if kind in (4, I32, I64):
        return _varint(_to_zigzag(value))
    if kind == 3:
        return bytes([value])
    if kind == BINARY:
        return _varint(len(value)) + value
    if kind == STRUCT:
        return encode_struct(value)
    inner, items = value
    small = len(items) < 15
    head = bytes([(len(items) if small else 15) << 4 | inner])
    head += b"" if small else _varint(len(items))
    return head + b"".join(_encode(inner, item) for item in items)


def _unsigned(data, at):
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _zigzag(data, at):
    value, at = _unsigned(data, at)
    return (value >> 1) ^ -(value & 1), at


def _to_zigzag(value):
    return value << 1 if value >= 0 else (-value << 1) - 1


def _varint(value):
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def read_footer(data):
    """Return the footer of a file, decoded, and its start."""
    length = struct.unpack("<I", data[-8:-4])[0]
    return decode_struct(data, len(data) - 8 - length)[0], len(data) - 8 - length


def write_footer(body, footer):
    """Return a file with the given pages and footer."""
    encoded = encode_struct(footer)
    return body + encoded + struct.pack("<I", len(encoded)) + MAGIC


def column_metadata(footer, name, group=0):
    """Return the metadata of the first chunk of a column whose path starts with ``name``."""
    for chunk in footer.value(4)[1][group].value(1)[1]:
        metadata = chunk.value(3)
        if metadata.value(3)[1][0].decode() == name:
            return metadata
    raise KeyError(name)


def replace_chunk(data, name, pages, *, values, uncompressed=None, honest=True):
    """Return a file in which the pages of a column are ``pages``: pairs of header and body.

    The footer declares ``values`` and, with ``honest``, the true sizes.
    """
    footer, end = read_footer(data)
    metadata = column_metadata(footer, name)
    encoded = b"".join(encode_struct(header) + body for header, body in pages)
    total = sum(len(encode_struct(header)) + header.value(2) for header, _ in pages)
    metadata.set(5, values)
    metadata.set(6, total if honest else uncompressed)
    metadata.set(7, len(encoded))
    metadata.set(9, end)
    metadata.pop(11, None)
    if 7 in pages[0][0]:
        metadata[11] = (I64, end)
        metadata.set(9, end + len(encode_struct(pages[0][0])) + len(pages[0][1]))
    return write_footer(data[:end] + encoded, footer)


def compressed_page(kind, description, content):
    """Return header and body of a page; ``kind`` is the field of its description."""
    body = pa.compress(content, "zstd", asbytes=True)
    crc = zlib.crc32(body)
    header = Fields(
        {
            1: (I32, {5: 0, 7: 2}[kind]),
            2: (I32, len(content)),
            3: (I32, len(body)),
            4: (I32, crc - (1 << 32) if crc >> 31 else crc),
            kind: (STRUCT, Fields(description)),
        }
    )
    return header, body


def dictionary_page(content, values):
    """Return a dictionary page of plain values."""
    return compressed_page(7, {1: (I32, values), 2: (I32, 0)}, content)


def run_page(values, *levels, encoding=8, bit_width=1):
    """Return a data page of ``values`` equal dictionary indices.

    Each of ``levels`` is a sequence of pairs of length and value, for repetition and definition.
    """
    content = b""
    for runs in levels:
        encoded = b"".join(_run(length, value) for length, value in runs)
        content += struct.pack("<I", len(encoded)) + encoded
    content += bytes([bit_width]) + _run(values, 0)
    description = {1: (I32, values), 2: (I32, encoding), 3: (I32, 3), 4: (I32, 3)}
    return compressed_page(5, description, content)


def _run(length, value):
    return _varint(length << 1) + bytes([value])
