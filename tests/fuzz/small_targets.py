"""Recipes, and caches that another program changed."""

from __future__ import annotations

import json
import random
import tomllib
from pathlib import Path
from typing import Any

from tests.fuzz import draw_edits
from tests.fuzz.artifact_target import read_corpus
from tests.fuzz.edits import apply, edit_json
from tests.fuzz.manifests import copy_tree
from tests.fuzz.oracles import run_gsx
from tests.fuzz.sandbox import Box, walk
from tests.fuzz.target import Case, Operation, Target, weighted
from tests.fuzz.values import dumps

EXAMPLES = Path(__file__).parents[2] / "examples"


class RecipeTarget(Target):
    """Recipes, which are planned but not run: a user decides how much a recipe computes."""

    name = "recipe"
    weight = 0.15

    def draw(self, rng: random.Random) -> Case:
        """Return edits of an example."""
        seed = rng.choice(("motif.toml", "splice.toml", "featx.toml"))
        document = tomllib.loads((EXAMPLES / seed).read_text())
        edits = [draw_edits.draw_json(rng, seed, document) for _ in range(rng.choice((1, 1, 2)))]
        if rng.random() < 0.2:
            edits = [draw_edits.draw_bytes(rng, seed)]
        return {
            "target": self.name,
            "seed": seed,
            "edits": edits,
            "run": [rng.choice(("run", "generate"))],
        }

    def place(self, box: Box, case: Case) -> None:
        """Write the recipe as TOML."""
        path = box.in_ / "recipe.toml"
        text = (EXAMPLES / case["seed"]).read_text()
        document = tomllib.loads(text)
        for edit in case["edits"]:
            if edit["do"] == "json":
                try:
                    document = edit_json(document, edit)
                    text = to_toml(document, str(box.canary))
                except (LookupError, TypeError, AttributeError, ValueError):
                    continue
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        for edit in case["edits"]:
            if edit["do"] == "bytes":
                apply(box.in_, {**edit, "file": "recipe.toml"}, box.canary)

    def operation(self, name: str, box: Box, case: Case) -> Operation:
        """Return a dry run."""
        return lambda: run_gsx(name, box.in_ / "recipe.toml", "--dry-run", "--store", box.store)


def to_toml(document: Any, canary: str) -> str:
    """Return sections of inline values; special values may give invalid TOML."""
    lines = []
    for section, options in document.items():
        if not isinstance(options, dict) or any(name.startswith("$") for name in options):
            lines.insert(0, f"{json.dumps(section)} = {_inline(options, canary)}")
            continue
        lines.append(f"[{json.dumps(section)}]")
        lines += [
            f"{json.dumps(name)} = {_inline(value, canary)}" for name, value in options.items()
        ]
    return "\n".join(lines) + "\n"


def _inline(value: Any, canary: str) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item, canary) for item in value) + "]"
    if isinstance(value, dict) and not any(name.startswith("$") for name in value):
        return (
            "{"
            + ", ".join(f"{json.dumps(k)} = {_inline(v, canary)}" for k, v in value.items())
            + "}"
        )
    if value is None:
        return '"null"'
    return dumps(value, canary, indent=None).replace("NaN", "nan").replace("Infinity", "inf")


class CacheTarget(Target):
    """Hot caches and verification records that another program changed."""

    name = "cache"
    weight = 0.3

    def draw(self, rng: random.Random) -> Case:
        """Return edits of files of the cache, which are chosen by their number."""
        edits = []
        for _ in range(rng.choice((1, 1, 2))):
            file = f"#{rng.randrange(60)}"
            chance = rng.random()
            if chance < 0.15:
                edits.append(draw_edits.draw_file(rng, file))
            elif chance < 0.6:
                value = rng.choice((-1, -(2**62), 2**62, 2**40, 0, 1, 10**6))
                edits.append(
                    {
                        "do": "bytes",
                        "file": file,
                        "edit": "write",
                        "at": 8 * rng.randrange(20),
                        "value": value.to_bytes(8, "little", signed=True).hex(),
                    }
                )
            elif chance < 0.8:
                edits.append(
                    {
                        "do": "index",
                        "file": file,
                        "edit": draw_edits.draw_json(
                            rng,
                            "",
                            {
                                "version": 1,
                                "arrays": {
                                    "node": {"dtype": "<i8", "shape": [20]},
                                    "edge": {"dtype": "<i8", "shape": [20]},
                                },
                            },
                        ),
                    }
                )
            else:
                edits.append(draw_edits.draw_bytes(rng, file))
        return {
            "target": self.name,
            "seed": rng.choice(("motif", "nodes", "molecules")),
            "edits": edits,
            "run": weighted(
                rng, {"hot": 8, "item": 3, "table": 3, "pyg": 2, "gc": 1, "verify": 1}, 2
            ),
        }

    def place(self, box: Box, case: Case) -> None:
        """Build the cache, then edit it."""
        import gsx

        copy_tree(self.seeds / "artifacts" / case["seed"], box.in_ / "received")
        gsx.open(box.in_ / "received").hot(build=True)
        files = [path for path in walk(box.cache) if path.is_file() and path.suffix != ".lock"]
        for edit in case["edits"]:
            path = files[int(edit["file"][1:]) % len(files)]
            if edit["do"] == "index":
                path = next(path for path in files if path.name == "index.json")
                edit = {**edit["edit"], "do": "json"}
            apply(box.cache, {**edit, "file": str(path.relative_to(box.cache))}, box.canary)

    def operation(self, name: str, box: Box, case: Case) -> Operation:
        """Return a reader that uses the cache."""
        root = box.in_ / "received"
        if name in ("gc", "verify"):
            words = {"gc": ("gc", "--delete"), "verify": ("verify", root)}[name]
            return lambda: run_gsx(*words, "--store", box.store)
        return lambda: read_corpus(name, root, check=False)
