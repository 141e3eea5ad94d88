"""Content hashes: digests of files and values, canonical JSON, artifact keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

CHUNK = 1 << 20
"""Bytes read at once."""


def sha256_bytes(data: bytes) -> str:
    """Return the SHA-256 of ``data`` as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def read_at_most(stream: BinaryIO, limit: int) -> bytes:
    """Read up to ``limit`` bytes; memory is allocated for the bytes that exist only."""
    chunks, left = [], limit
    while left and (chunk := stream.read(min(left, CHUNK))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def sha256_stream(stream: BinaryIO, *, limit: int | None = None) -> tuple[int, str]:
    """Read ``stream`` to its end and return its size and SHA-256.

    Reading stops after ``limit`` bytes, so that a file which grows is not read forever.
    """
    digest, size = hashlib.sha256(), 0
    buffer = bytearray(CHUNK)
    view = memoryview(buffer)
    read = getattr(stream, "readinto", None)
    while limit is None or size < limit:
        if read is None:
            chunk: bytes | memoryview = stream.read(CHUNK)
        else:
            chunk = view[: read(buffer)]
        if not chunk:
            break
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a local file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def canonical_json(value: object) -> bytes:
    """Encode ``value`` as canonical JSON: equal values give equal bytes.

    NaN and infinity raise ValueError.
    """
    builtins = msgspec.to_builtins(value)
    text = json.dumps(
        builtins, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def readable_json(value: object) -> bytes:
    """Encode ``value`` as sorted, indented JSON with a final newline; NaN raises ValueError."""
    builtins = msgspec.to_builtins(value)
    text = json.dumps(builtins, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


SCHEMA_VERSION = 2
"""Version of the on-disk format. It is part of every key, so that artifacts of other versions are
never used in place of a build."""


def artifact_key(
    *,
    stage: str,
    stage_version: int,
    config: Mapping[str, Any],
    inputs: Mapping[str, str],
    raw: Mapping[str, str],
) -> str:
    """Return the key of an artifact, which is known before the artifact is built.

    ``inputs`` maps roles to content digests of parent artifacts. ``raw`` maps names of raw files
    to their hashes.
    """
    identity = {
        "schema": SCHEMA_VERSION,
        "stage": stage,
        "stage_version": stage_version,
        "config": config,
        "inputs": inputs,
        "raw": raw,
    }
    return sha256_bytes(canonical_json(identity))


def content_digest(files: Mapping[str, tuple[int, str]]) -> str:
    """Return one digest of many files, given their size and SHA-256 by path."""
    digest = hashlib.sha256()
    for path, (size, sha256) in sorted(files.items()):
        digest.update(f"{path}\0{size}\0{sha256}\n".encode())
    return digest.hexdigest()
