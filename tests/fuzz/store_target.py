"""Whole stores that were received."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
from pathlib import Path
from typing import ClassVar

from tests.fuzz import draw_edits
from tests.fuzz.edits import Edit, apply
from tests.fuzz.manifests import copy_tree, rehash
from tests.fuzz.oracles import run_gsx
from tests.fuzz.sandbox import Box
from tests.fuzz.target import Case, Operation, Target, weighted

TAG = {"kind": "corpus", "key": "0" * 64, "digest": "1" * 64, "date": "2026-01-01"}


class StoreTarget(Target):
    """A received store: links in place of folders, leftovers of others, cycles in the lineage."""

    name = "store"
    weight = 0.4
    HIDDEN = (
        *(".drafts", ".transfers", ".trash", ".runs", ".locks", ".studies", ".uploads"),
        *(".tags", ".tags", ".lineage", ".origins"),
    )
    INNER = (
        "aa",
        "aa/content",
        "aa/content/data/x.parquet",
        "aa/progress/1.json",
        "aa/earlier/1.json",
        "aa/source",
        "aa/scratch/x",
        "aa.lock",
        "aa.json",
        "fuzz.json",
    )
    RUN: ClassVar = {
        "ls": 3,
        "ls-long": 1,
        "tags": 1,
        "tag": 2,
        "tag-delete": 1,
        "show-tag": 2,
        "tune": 0.5,
        "gc": 3,
        "gc-delete": 6,
        "verify-all": 2,
        "lineage": 3,
        "latest": 2,
        "describe": 2,
        "prepare": 2,
        "reuse": 3,
        "report": 1,
        "gc-key": 2,
        "pull": 2,
        "push": 2,
    }

    def draw(self, rng: random.Random) -> Case:
        """Return edits of a store."""
        files = list(self.catalogue["store"]["files"])
        folders = sorted(
            {"/".join(name.split("/")[:depth]) for name in files for depth in (1, 2, 3)}
        )
        edits: list[Edit] = []
        for _ in range(rng.choice((1, 2, 3))):
            chance = rng.random()
            hidden = rng.choice(self.HIDDEN)
            if chance < 0.25:
                to = rng.choice(
                    ("@CANARY@/home", "@CANARY@/folder", "@CANARY@", "@CANARY@/secret.txt")
                )
                edits.append({"do": "file", "file": hidden, "edit": "symlink", "to": to})
            elif chance < 0.45:
                edits.append(draw_edits.draw_file(rng, f"{hidden}/{rng.choice(self.INNER)}"))
            elif chance < 0.55:
                edits.append(draw_edits.draw_file(rng, hidden))
            elif chance < 0.62:
                edits.append({**draw_edits.draw_json(rng, "", TAG), "do": "tag"})
            elif chance < 0.7:
                edits.append(draw_edits.draw_file(rng, rng.choice((*folders, rng.choice(files)))))
            elif chance < 0.8:
                edits.append(
                    {
                        "do": "lineage",
                        "file": "",
                        "shape": rng.choice(("cycle", "self", "ladder", "chain")),
                        "size": rng.choice((2, 26, 60, 300)),
                    }
                )
            else:
                file = rng.choice(
                    [name for name in files if name.endswith(".json") and "zarr" not in name]
                )
                document = draw_edits.read_json(self.seeds / "store" / file)
                edits.append(draw_edits.draw_json(rng, file, document))
        return {
            "target": self.name,
            "seed": "store",
            "edits": edits,
            "rehash": rng.random() < 0.5,
            "run": weighted(rng, self.RUN, 2),
        }

    def place(self, box: Box, case: Case) -> None:
        """Copy the store and edit it."""
        box.store.rmdir()
        copy_tree(self.seeds / "store", box.store)
        self._lineage = ""
        for edit in case["edits"]:
            if edit["do"] == "lineage":
                self._lineage = _fabricate_lineage(box.store, edit["shape"], edit["size"])
                continue
            if edit["do"] == "tag":
                file = ".tags/fuzz.json"
                if not (box.store / ".tags").is_symlink():
                    with contextlib.suppress(OSError):
                        (box.store / ".tags").mkdir(exist_ok=True)
                        (box.store / file).write_text(json.dumps(TAG))
                edit = {**edit, "do": "json", "file": file}
            apply(box.store, edit, box.canary)
            if case["rehash"] and edit["do"] == "json":
                root = box.store / "/".join(edit["file"].split("/")[:2])
                try:
                    manifest = rehash(root, sync=True)
                    if manifest and len(manifest["key"]) == 64:
                        root.rename(root.with_name(manifest["key"][:32]))
                except (
                    OSError,
                    ValueError,
                    LookupError,
                    TypeError,
                    RecursionError,
                    AttributeError,
                ):
                    continue

    def operation(self, name: str, box: Box, case: Case) -> Operation:
        """Return a command that reads the whole store, or writes to it."""
        plain = self.catalogue["parquet"]["key"][:32]
        key = self._lineage or plain
        words: dict[str, tuple] = {
            "ls": ("ls",),
            "ls-long": ("ls", "--long", "--sort", "score"),
            "tags": ("tag",),
            "tag": ("tag", key, "fuzz", "--force"),
            "tag-delete": ("tag", "--delete", "fuzz"),
            "show-tag": ("show", "fuzz"),
            "tune": ("tune", plain, "--dry-run"),
            "gc": ("gc",),
            "gc-delete": ("gc", "--delete"),
            "gc-key": ("gc", key, "--delete", "--with-descendants"),
            "verify-all": ("verify", "--all"),
            "lineage": ("lineage", key),
            "latest": ("show", "--latest", "--kind", "corpus"),
            "describe": ("describe", plain),
            "prepare": ("prepare", "motif-size", "--num-graphs", 12),
            "reuse": ("prepare", "motif-size", "--num-graphs", 24, "--shard-graphs", 8),
            "report": ("report", plain, "-o", box.out / "report.html"),
            "push": ("push", key, box.out / "pushed", "--with-lineage"),
        }
        if name == "pull":
            source = (
                "pull",
                key,
                "--from",
                box.store,
                "--with-lineage",
                "--kind",
                "blob" if key == self._lineage else "corpus",
            )
            return lambda: run_gsx(*source, "--store", box.out / "pulled")
        return lambda: run_gsx(*words[name], "--store", box.store)


def _fabricate_lineage(store: Path, shape: str, size: int) -> str:
    """Write artifacts whose parents form a cycle, a chain, or a ladder; return a key."""

    from gsx.storage.artifacts.digest import artifact_key, content_digest

    def parents_of(number: int) -> list[int]:
        match shape:
            case "cycle":
                return [(number + 1) % size]
            case "self":
                return [number]
            case "ladder":
                return (
                    []
                    if number < 2
                    else [number - 2 + (number % 2 == 0), number - 2 - (number % 2)]
                )
        return [number - 1] if number else []

    data = [str(number).encode() for number in range(size)]
    entries = [
        {"size": len(d), "sha256": hashlib.sha256(d).hexdigest(), "rows": None} for d in data
    ]
    digests = [content_digest({"a": (e["size"], e["sha256"])}) for e in entries]
    inputs = [
        {f"in{i}": digests[p] for i, p in enumerate(dict.fromkeys(parents_of(n)))}
        for n in range(size)
    ]
    keys = [
        artifact_key(stage="test", stage_version=1, config={"n": n}, inputs=inputs[n], raw={})
        for n in range(size)
    ]
    for number in range(size):
        parents = [
            {"role": f"in{i}", "kind": "blob", "key": keys[p], "digest": digests[p]}
            for i, p in enumerate(dict.fromkeys(parents_of(number)))
        ]
        manifest = {
            "schema": 2,
            "kind": "blob",
            "key": keys[number],
            "digest": digests[number],
            "stage": "test",
            "stage_version": 1,
            "config": {"n": number},
            "parents": parents,
            "files": {"a": entries[number]},
        }
        root = store / "blob" / keys[number][:32]
        root.mkdir(parents=True, exist_ok=True)
        (root / "a").write_bytes(data[number])
        (root / "manifest.json").write_text(json.dumps(manifest))
    return keys[-1]
