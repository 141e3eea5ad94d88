"""Digest of the code that a stage can reach: the stage's module and everything it imports.

The digest identifies the code that built an artifact. It is not part of a key. A reused artifact
with another digest gives a note, a draft with another digest is discarded, and a worker with
another digest refuses a job.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

import gsx

ROOT = Path(gsx.__file__).parent
_IMPORT = re.compile(
    rb"^[ \t]*(?:from +(gsx[\w.]*) +import +(\([^)]*\)|[^\n]*)|import +(gsx[^\n]*))",
    re.MULTILINE,
)


def code_digest(modules: Iterable[str]) -> str:
    """Return one SHA-256 hash over the names and code of all modules that some modules reach."""
    digest = hashlib.sha256()
    for name in import_closure(modules):
        code = _code(name)
        digest.update(f"{name} {len(code)}\n".encode())
        digest.update(code)
    return digest.hexdigest()


def import_closure(modules: Iterable[str]) -> list[str]:
    """Return the sorted names of all gsx modules that some modules import, directly or not.

    Imports inside functions count. Names that do not belong to gsx are left out. A package counts
    with its ``__init__.py``.
    """
    reached: set[str] = set()
    waiting = [name for module in modules for name in (module, *_packages(module))]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        waiting.extend(imported_modules(name))
    return sorted(reached)


def imported_modules(name: str) -> set[str]:
    """Return the gsx modules that the code of one module imports, and their packages."""
    modules: set[str] = set()
    for package, names, plain in _IMPORT.findall(_code(name)):
        if plain:
            targets = [item.split()[0] for item in plain.split(b",")]
        else:
            targets = [package, *(package + b"." + n for n in _imported_names(names))]
        modules.update(target.decode() for target in targets)
    existing = {module for module in modules if _path(module) is not None}
    return existing | {parent for module in existing for parent in _packages(module)}


def _imported_names(text: bytes) -> list[bytes]:
    lines = [line.split(b"#")[0] for line in text.strip(b"()").splitlines()]
    return [item.split()[0] for line in lines for item in line.split(b",") if item.strip()]


def _packages(module: str) -> list[str]:
    """Return the packages around a module, the root package included."""
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


@functools.cache
def _path(module: str) -> Path | None:
    """Return the file of a module of gsx; None if there is no such module."""
    base = ROOT.joinpath(*module.split(".")[1:])
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            return path
    return None


def _code(module: str) -> bytes:
    path = _path(module)
    return path.read_bytes() if path is not None else b""
