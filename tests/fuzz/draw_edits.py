"""Random edits that know the structure of the file they change."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.fuzz.edits import Edit
from tests.fuzz.shard_edits import CHANGES, TYPES
from tests.fuzz.values import CANARY, DTYPES, draw, draw_text

BYTES = (
    "00",
    "ff",
    "80",
    "7f",
    "0a",
    "22",
    "7b",
    "5b",
    "ffffffff",
    "00000000",
    "ffffff7f",
    "ffffffffffffff7f",
    "28b52ffd",
    "504b0304",
    "1f8b",
    "50415231",
)
KINDS = (
    "symlink",
    "symlink",
    "hardlink",
    "fifo",
    "directory",
    "device",
    "socket",
    "link to itself",
    "move and link",
    "mode",
    "write",
    "sparse",
    "remove",
    "copy",
)
LINKS = (
    f"{CANARY}/secret.txt",
    f"{CANARY}/folder",
    f"{CANARY}/manifest.json",
    f"{CANARY}/absent",
    "/dev/zero",
    "/dev/stdin",
    "/proc/self/environ",
    "/etc/passwd",
    ".",
    "manifest.json",
)


def draw_json(rng: random.Random, file: str, value: Any) -> Edit:
    """Return an edit of a random value of a JSON document."""
    paths = list(json_paths(value))
    # Long lists of hashes are frequent and boring: half of the time, choose among short paths.
    if rng.random() < 0.5:
        paths = [path for path in paths if len(path) <= 3] or paths
    path = rng.choice(paths)
    target = resolve(value, path)
    edit = rng.choices(("set", "delete", "add", "duplicate", "rename"), (12, 3, 2, 1, 2))[0]
    result: Edit = {"do": "json", "file": file, "edit": edit, "path": path}
    if edit == "set":
        result["value"] = _replacement(rng, target, value)
    if edit == "add":
        while path and not isinstance(resolve(value, path), dict | list):
            path = path[:-1]
        if not path:
            result |= {
                "edit": "set",
                "path": [rng.choice(["extra", *list(value)[:3]]) if isinstance(value, dict) else 0],
            }
        result |= {"value": draw(rng), "name": draw_key(rng), "at": 0}
        result["path"] = path or result["path"]
    if edit == "rename":
        result["name"] = draw_key(rng)
        if isinstance(resolve(value, path[:-1]), list):
            result |= {"edit": "duplicate"}
    return result


def draw_key(rng: random.Random) -> str:
    """Return a name for a JSON object; special values are not possible here."""
    key = draw_text(rng)
    return key if isinstance(key, str) else "x"


def _replacement(rng: random.Random, old: Any, document: Any) -> Any:
    chance = rng.random()
    if chance < 0.15:  # a value from elsewhere in the document
        return resolve(document, rng.choice(list(json_paths(document))))
    if isinstance(old, bool):
        return draw(rng)
    if isinstance(old, int) and chance < 0.5:
        return old + rng.choice((-old - 1, 1, -1, 2, 1000, old, 2**31, 2**40, 2**62, 2**63, 2**70))
    if isinstance(old, float) and chance < 0.4:
        return rng.choice((-old, old * 1e30, {"$raw": "NaN"}, {"$raw": "1e999"}, int(old)))
    if isinstance(old, str) and chance < 0.8:
        if old in DTYPES or old[:3] in ("int", "flo", "tex"):
            return rng.choice(DTYPES)
        return draw_text(rng)
    if isinstance(old, list) and chance < 0.4:
        return rng.choice(([], old * 2, old[:-1], old[::-1], [old], {"$list": [0, 100_000]}))
    return draw(rng)


def json_paths(value: Any, path: tuple = ()) -> Iterator[list]:
    """Yield the paths of all values of a document except the document itself."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, inner in list(items)[:60]:
        yield [*path, name]
        if len(path) < 6:
            yield from json_paths(inner, (*path, name))
    if not path and not items:
        yield []


def resolve(value: Any, path: list) -> Any:
    """Return the value at a path."""
    for name in path:
        value = value[name]
    return value


def draw_bytes(rng: random.Random, file: str) -> Edit:
    """Return an edit of bytes at a random place; headers and footers are more likely."""
    at: float | int = rng.choice(
        (rng.random(), rng.random(), rng.randrange(64), -rng.randrange(1, 64))
    )
    kind = rng.choice(("flip", "flip", "write", "insert", "cut", "remove"))
    edit: Edit = {"do": "bytes", "file": file, "edit": kind, "at": at}
    if kind == "flip":
        edit["mask"] = 1 << rng.randrange(8)
    if kind in ("write", "insert"):
        edit |= {"value": rng.choice(BYTES), "times": rng.choice((1, 1, 1, 8, 1000, 200_000))}
    if kind == "remove":
        edit |= {"count": rng.choice((1, 4, 100)), "at": abs(at)}
    return edit


def draw_file(rng: random.Random, file: str) -> Edit:
    """Return an edit that replaces a file or directory by something of another type."""
    kind = rng.choice(KINDS)
    edit: Edit = {"do": "file", "file": file, "edit": kind}
    if kind == "symlink":
        edit["to"] = rng.choice(LINKS)
    elif kind == "hardlink":
        edit["to"] = "manifest.json"
    elif kind == "device":
        edit["value"] = rng.choice((3, 5, 7, 8))  # null, zero, full, random
    elif kind == "mode":
        edit["value"] = rng.choice((0, 0o200, 0o777, 0o4755))
    elif kind == "write":
        edit["to"] = rng.choice(("", "{}", "[]", "null", "x", "PAR1PAR1"))
    elif kind == "sparse":
        edit["value"] = rng.choice((1 << 20, 1 << 33))
    elif kind == "copy":
        name = file.rsplit("/", 1)[-1]
        edit["to"] = rng.choice(
            (name.upper(), f"{name}.part", f".{name}", f"{name}~", f"{name}.tmp")
        )
    return edit


def draw_header(rng: random.Random, file: str, data: bytes) -> Edit:
    """Return an edit of the header of a safetensors file."""
    (length,) = struct.unpack("<Q", data[:8])
    edit = draw_json(rng, file, json.loads(data[8 : 8 + length])) | {"do": "header"}
    if rng.random() < 0.1:
        edit["length"] = rng.choice((0, 1, 2**31, 2**62, length - 1, length + 1000))
    return edit


def draw_parquet(rng: random.Random, file: str, entry: Mapping[str, Any]) -> Edit:
    """Return an edit of a Parquet shard."""
    columns = list(entry["columns"])
    column = rng.choice(columns)
    edit: Edit = {"do": "parquet", "file": file, "column": column}
    kind = rng.choices(
        ("value", "drop", "rename", "type", "add", "order", "rows", "bomb", "footer", "options"),
        (16, 2, 2, 3, 1, 1, 2, 1, 3, 1),
    )[0]
    edit["edit"] = kind
    if kind == "value":
        inner = entry["structs"].get(column)
        edit |= {
            "row": rng.choice(("all", rng.randrange(8))),
            "how": rng.choice(CHANGES),
            "item": rng.choice((0, -1, rng.randrange(8))),
            "inner": rng.choice(inner) if inner else None,
        }
    elif kind in ("rename", "add"):
        edit["name"] = rng.choice((draw_key(rng), rng.choice(columns)))
    elif kind == "type":
        edit["type"] = rng.choice(list(TYPES))
    elif kind == "rows":
        edit["how"] = rng.choice(("none", "fewer", "twice", "reverse"))
    elif kind == "bomb":
        lists = [name for name, kind_ in entry["columns"].items() if kind_.startswith("list")]
        edit |= {
            "column": rng.choice(lists or columns),
            "count": rng.choice((100_000, 5_000_000, 15_000_000)),
            "sizes": rng.choice(([], ["num_nodes"], ["num_nodes", "num_edges"])),
        }
    elif kind == "footer":
        if rng.random() < 0.8:
            edit["json"] = {"needs": "corpus.json"}
    elif kind == "options":
        edit["options"] = rng.choice(
            (
                {"compression": "snappy"},
                {"compression": "none"},
                {"row_group_size": 1},
                {"data_page_version": "2.0"},
                {"use_dictionary": False},
                {"store_schema": False},
            )
        )
    return edit


def draw_zarr(rng: random.Random, file: str) -> Edit:
    """Return an edit of the values of a Zarr array; ``file`` is any file of it."""
    folder = file.split("/c/")[0].removesuffix("/zarr.json")
    return {
        "do": "zarr",
        "file": folder,
        "row": rng.choice(("all", 0, -1, rng.randrange(50))),
        "how": rng.choice(("zero", "minus one", "huge", "largest", "nan", "one")),
    }


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_bytes())
