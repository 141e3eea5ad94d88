"""Probe a store: which operations work and how long they take. All probes are removed."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gsx.errors import StoreError
from gsx.storage.artifacts.atomic_files import fsync_file
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.publish_remote import require_create_only

State = Literal["ok", "warn", "bad"]
ROUNDS = 5
SLOW_SECONDS = 1.0
"""Median time of one operation on a small file above which a store is reported as slow."""
LOW_SPACE = 1 << 30
"""Free bytes below which a disk is reported as nearly full."""


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one probe."""

    name: str
    state: State
    found: str
    """Measured time, or the error message."""


def check_store(location: Location) -> list[Check]:
    """Probe the operations of publishing and reading: create-only, write, read, list, remove."""
    if location.local is not None:
        return _check_local(location.local)
    try:
        require_create_only(location)
    except StoreError as error:
        return [Check("create-only", "bad", str(error))]
    probe = location.path(f".probe-{secrets.token_hex(8)}")
    checks = [Check("create-only", "ok", "existing files cannot be overwritten")]
    for name, operation in (
        ("write", lambda: location.fs.pipe_file(probe, b"x" * 1024)),
        ("read", lambda: location.fs.cat_file(probe)),
        ("list", lambda: location.fs.ls(location.root, refresh=True)),
        ("remove", lambda: location.fs.rm_file(probe)),
    ):
        checks.append(_check_timed(name, operation, 1 if name == "remove" else ROUNDS))
    return checks


def _check_local(root: Path) -> list[Check]:
    existing = next(path for path in (root, *root.parents) if path.exists())
    probe = existing / f".probe-{secrets.token_hex(8)}"

    def write_and_fsync() -> None:
        probe.write_bytes(b"x" * 1024)
        fsync_file(probe)

    checks = [_check_timed("write", write_and_fsync, ROUNDS)]
    if checks[0].state != "bad":
        checks += [
            _check_timed("read", probe.read_bytes, ROUNDS),
            _check_once("create-only", lambda: _create_twice(probe)),
            _check_once("links", lambda: os.link(probe, probe.with_suffix(".link"))),
        ]
    for path in (probe, probe.with_suffix(".link")):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    free = shutil.disk_usage(existing).free
    checks.append(Check("space", "ok" if free > LOW_SPACE else "warn", f"{free / 1e9:.1f} GB free"))
    return checks


def _create_twice(path: Path) -> None:
    try:
        path.open("xb").close()
    except FileExistsError:
        return
    raise OSError("existing files can be overwritten in create-only mode")


def _check_once(name: str, operation: Callable[[], object]) -> Check:
    try:
        operation()
    except OSError as error:
        required = name != "links"  # without hard links, source shards are copied
        return Check(name, "bad" if required else "warn", str(error))
    return Check(name, "ok", "works")


def _check_timed(name: str, operation: Callable[[], object], rounds: int) -> Check:
    """Repeat an operation and report its median time, or its error."""
    seconds = []
    try:
        for _ in range(rounds):
            started = time.perf_counter()
            operation()
            seconds.append(time.perf_counter() - started)
    except Exception as error:  # every backend raises the exceptions of its own libraries
        return Check(name, "bad", f"{type(error).__name__}: {error}")
    median = statistics.median(seconds)
    return Check(name, "ok" if median < SLOW_SECONDS else "warn", f"{median * 1000:.1f} ms")
