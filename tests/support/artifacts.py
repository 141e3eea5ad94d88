"""Small artifacts for tests, and a runner of the command line inside the test process."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from gsx.cli.main import main
from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.manifest import Parent
from gsx.storage.artifacts.publish import Identity, StageResult, build_artifact
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.verification_cache import cache_root

FILES = {"data/a.bin": b"first", "data/b.bin": b"second", "notes.json": b"{}\n"}


def identity(**changes) -> Identity:
    """Return the identity of a small artifact of kind ``blob``, with ``changes``."""
    fields = {"kind": "blob", "stage": "test", "stage_version": 1, "config": {"size": 1}}
    return Identity(**{**fields, **changes})


def write_files(files=None, **result):
    """Return a produce function that writes ``files`` and returns a StageResult."""

    def produce(draft: Draft) -> StageResult:
        for name, data in (FILES if files is None else files).items():
            draft.write_bytes(name, data)
        return StageResult(**{"counts": {"things": 2}, **result})

    return produce


def blob(store: Store, files=None, *, force: bool = False, **changes) -> Artifact:
    """Publish a small artifact of kind ``blob``."""
    return build_artifact(store, identity(**changes), write_files(files), force=force).artifact


def parent_of(artifact: Artifact, role: str = "source") -> Parent:
    """Return the manifest entry of ``artifact`` as a parent."""
    manifest = artifact.manifest
    return Parent(role=role, kind=manifest.kind, key=manifest.key, digest=manifest.digest)


def motif(store: Store, *, num_graphs: int = 30, options: str = "") -> Artifact:
    """Publish a small Motif corpus."""
    text = f'[prepare]\ndataset = "motif-size"\nnum_graphs = {num_graphs}\n{options}\n'
    ((_, built),) = run_plan(make_plan(parse_recipe(text, "test.toml")), store)
    return built.artifact


def contents(root: Path) -> dict[str, bytes]:
    """Return the bytes of every file below ``root``, by path."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


@dataclass(frozen=True)
class CommandResult:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


def gsx(*words: object) -> CommandResult:
    """Run the command line with ``words`` in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    argv = mock.patch.object(sys, "argv", ["gsx", *map(str, words)])
    with argv, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return CommandResult(code, *texts)


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file that may be read-only."""
    path.unlink()
    path.write_bytes(data)


def verification_cache_dir() -> Path:
    """Return the directory of the verification cache."""
    return cache_root() / "verified"
