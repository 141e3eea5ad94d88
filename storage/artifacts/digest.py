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


def sha256_stream(stream: BinaryIO) -> tuple[int, str]:
    """Read ``stream`` to its end and return its size and SHA-256."""
    digest, size = hashlib.sha256(), 0
    while chunk := stream.read(CHUNK):
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
        "stage": stage,
        "stage_version": stage_version,
        "config": config,
        "inputs": inputs,
        "raw": raw,
    }
    return sha256_bytes(canonical_json(identity))


def content_digest(files: Mapping[str, tuple[int, str]]) -> str:
    """Return one digest of many files, given their size and SHA-256 by path."""
    lines = [f"{path}\0{size}\0{sha256}\n" for path, (size, sha256) in sorted(files.items())]
    return sha256_bytes("".join(lines).encode())
