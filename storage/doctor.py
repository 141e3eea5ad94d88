"""What a store can do, found out by trying: every probe is removed again."""

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
from gsx.storage.artifacts.atomic_files import flush_file
from gsx.storage.artifacts.location import Place
from gsx.storage.artifacts.publish_remote import require_create_only

State = Literal["ok", "warn", "bad"]
ROUNDS = 5
SLOW = 1.0
"""Seconds for one small file above which a store is called slow."""
LOW = 1 << 30
"""Bytes of free space under which a disk is called nearly full."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried."""

    name: str
    state: State
    found: str


def check_store(place: Place) -> list[Check]:
    """Try what publishing and reading need: create once, write, read, list, remove."""
    if place.local is not None:
        return _local(place.local)
    try:
        require_create_only(place)
    except StoreError as error:
        return [Check("create-only", "bad", str(error))]
    probe = place.path(f".probe-{secrets.token_hex(8)}")
    checks = [Check("create-only", "ok", "a second writer of one name is refused")]
    for name, act in (
        ("write", lambda: place.fs.pipe_file(probe, b"x" * 1024)),
        ("read", lambda: place.fs.cat_file(probe)),
        ("list", lambda: place.fs.ls(place.root, refresh=True)),
        ("remove", lambda: place.fs.rm_file(probe)),
    ):
        checks.append(_timed(name, act, 1 if name == "remove" else ROUNDS))
    return checks


def _local(root: Path) -> list[Check]:
    existing = next(path for path in (root, *root.parents) if path.exists())
    probe = existing / f".probe-{secrets.token_hex(8)}"

    def write() -> None:
        probe.write_bytes(b"x" * 1024)
        flush_file(probe)

    checks = [_timed("write", write, ROUNDS)]
    if checks[0].state != "bad":
        checks += [
            _timed("read", probe.read_bytes, ROUNDS),
            _once("create-only", lambda: _create_twice(probe)),
            _once("links", lambda: os.link(probe, probe.with_suffix(".link"))),
        ]
    for path in (probe, probe.with_suffix(".link")):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    free = shutil.disk_usage(existing).free
    checks.append(Check("space", "ok" if free > LOW else "warn", f"{free / 1e9:.1f} GB free"))
    return checks


def _create_twice(path: Path) -> None:
    try:
        path.open("xb").close()
    except FileExistsError:
        return
    raise OSError("a second writer of one name is not refused")


def _once(name: str, act: Callable[[], object]) -> Check:
    try:
        act()
    except OSError as error:
        needed = name != "links"  # without them source shards are copied
        return Check(name, "bad" if needed else "warn", str(error))
    return Check(name, "ok", "works")


def _timed(name: str, act: Callable[[], object], rounds: int) -> Check:
    """Do something a few times and say how long it takes, or why it cannot be done."""
    seconds = []
    try:
        for _ in range(rounds):
            began = time.perf_counter()
            act()
            seconds.append(time.perf_counter() - began)
    except Exception as error:  # every backend raises what its own libraries raise
        return Check(name, "bad", f"{type(error).__name__}: {error}")
    middle = statistics.median(seconds)
    return Check(name, "ok" if middle < SLOW else "warn", f"{middle * 1000:.1f} ms")
