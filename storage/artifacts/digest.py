"""Names made from content: hashes of files, of values, and the keys of artifacts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

CHUNK = 1 << 20


def sha256_bytes(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hexadecimal."""
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
    """Encode ``value`` so that equal values give equal bytes; NaN and infinity are refused."""
    plain = msgspec.to_builtins(value)
    text = json.dumps(
        plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def readable_json(value: object) -> bytes:
    """Encode ``value`` for people: sorted, indented, one line at the end; NaN is refused."""
    plain = msgspec.to_builtins(value)
    text = json.dumps(plain, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def artifact_key(
    *,
    stage: str,
    stage_version: int,
    config: Mapping[str, Any],
    inputs: Mapping[str, str],
    raw: Mapping[str, str],
) -> str:
    """Return the key of an artifact, known before it is made.

    ``inputs`` are content digests of parent artifacts by role, ``raw`` hashes of raw files by name.
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
    """Return one digest for many files, given their size and SHA-256 by path."""
    lines = [f"{path}\0{size}\0{sha256}\n" for path, (size, sha256) in sorted(files.items())]
    return sha256_bytes("".join(lines).encode())
