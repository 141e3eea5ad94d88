"""Values that readers rarely expect, as plain JSON so that a case can be stored and replayed.

An object with one key that starts with ``$`` stands for text that JSON cannot hold: ``{"$raw":
"NaN"}`` is written as it is, ``{"$repeat": ["x", 3]}`` is a long string, ``{"$deep": ["[", 9]}``
nests lists or objects. ``@CANARY@`` in a string becomes the path of the canary directory.
"""

from __future__ import annotations

import json
import random
from typing import Any

CANARY = "@CANARY@"

NUMBERS: tuple[Any, ...] = (
    0,
    -1,
    1,
    2,
    255,
    2**15,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**30,
    0.5,
    -0.5,
    1e308,
    {"$raw": "NaN"},
    {"$raw": "Infinity"},
    {"$raw": "-Infinity"},
    {"$raw": "1e999"},
    {"$raw": "-0"},
    {"$digits": 5000},
)
PATHS = (
    "",
    ".",
    "..",
    "../x",
    "../../../../../canary/escaped",
    "../../canary/escaped",
    "/",
    f"{CANARY}/escaped",
    f"{CANARY}/secret.txt",
    f"{CANARY}/home/.bashrc",
    "a/b",
    "a//b",
    "a/./b",
    "a\\..\\b",
    "~",
    "~/escaped",
    "x" * 200,
    "x" * 5000,
    "con",
    "NUL",
    "aux.txt",
    ".hidden",
    "-rf",
    "a\x00b",
    "name\n",
    "name ",
    "index.json",
    "manifest.json",
    "run.json",
    "corpus.json.part",
    "file:///etc/passwd",
    "http://127.0.0.1:9/x",
    "memory://x",
    "simplecache::file:///etc/passwd",
    "data/train-00000-of-00001.parquet",
    "data",
    "zarr",
    "A" * 255,
    "é",
    "e\u0301",
    "ﬁ",
)
TEXTS = (
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\r\rover",
    "\x9b31m",
    "\u202eright to left",
    "\u200b",
    "<script>alert('CANARY-HTML')</script>",
    "<img src=x onerror=CANARY-HTML>",
    "=CANARY()",
    "+CANARY",
    "@CANARY",
    "-CANARY()",
    "---\nkey: value",
    "a: b\n- c",
    '"',
    "'",
    "`",
    "|",
    "\\",
    "%s%n",
    "{0.__class__}",
    "$(touch escaped)",
    "; touch escaped",
    "\ufffe",
    {"$raw": '"\\ud800"'},
    {"$repeat": ["x", 100_000]},
    {"$repeat": ["\U0001f600", 20_000]},
    "\t",
    "\n\n",
    "$$$$",
    "M  END",
    "train",
    "all",
    "source",
    "motif-size",
    "portable",
    "0",
    "-1",
    "true",
    "null",
    "١٢٣",
)
DTYPES = (
    "object",
    "O",
    "U10",
    "S",
    "V8",
    "float16",
    "float64",
    "float128",
    "complex64",
    "bool",
    "int8",
    "uint64",
    "int128",
    "datetime64[ns]",
    "datetime64",
    "timedelta64",
    "text",
    "<i8",
    ">f4",
    ">i4",
    "(3,)i4",
    "i4,i4",
    "void",
    "str",
    "bytes",
    "",
)
SHAPES: tuple[Any, ...] = (
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    {"": None},
    [0] * 1000,
    {"$deep": ["[", 30]},
    {"$deep": ["[", 200]},
    {"$deep": ["[", 5000]},
    {"$deep": ["{", 40]},
    {"$deep": ["{", 3000]},
    {"$deep": ["[", 200_000]},
    {"$list": [0, 100_000]},
)
POOLS = (NUMBERS, PATHS, TEXTS, DTYPES, SHAPES)


def draw(rng: random.Random) -> Any:
    """Return a value of a random pool."""
    return rng.choice(rng.choice(POOLS))


def draw_text(rng: random.Random) -> Any:
    """Return a string."""
    return rng.choice(rng.choice((PATHS, TEXTS, DTYPES)))


def expand(value: Any, canary: str) -> Any:
    """Return ``value`` as Python data, for formats other than JSON."""
    if isinstance(value, str):
        return value.replace(CANARY, canary)
    if isinstance(value, list):
        return [expand(item, canary) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$raw": text}:
            return json.loads(text)
        case {"$repeat": [text, count]}:
            return text * count
        case {"$digits": count}:
            return 10**count - 1
        case {"$list": [item, count]}:
            return [item] * count
        case {"$deep": [_, depth]}:
            return [[]] if depth > 100 else _nest(depth)
    return {key.replace(CANARY, canary): expand(item, canary) for key, item in value.items()}


def _nest(depth: int) -> list:
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


def dumps(value: Any, canary: str, *, indent: int | None = 2) -> str:
    """Return ``value`` as JSON text with the special objects written out.

    A key that starts with NUL is written without it: this gives two members of one name.
    """
    raw: dict[str, str] = {}

    def plain(item: Any) -> Any:
        if isinstance(item, str):
            return item.replace(CANARY, canary)
        if isinstance(item, list):
            return [plain(inner) for inner in item]
        if not isinstance(item, dict):
            return item
        text = _special(item)
        if text is not None:
            raw[f"\x01{len(raw)}\x01"] = text
            return f"\x01{len(raw) - 1}\x01"
        return {key.replace(CANARY, canary): plain(inner) for key, inner in item.items()}

    text = json.dumps(plain(value), indent=indent, ensure_ascii=False)
    for mark, replacement in raw.items():
        text = text.replace(json.dumps(mark, ensure_ascii=False), replacement)
    return text.replace('"\\u0000', '"')


def _special(item: dict) -> str | None:
    match item:
        case {"$raw": text}:
            return text
        case {"$repeat": [text, count]}:
            return json.dumps(text * count, ensure_ascii=False)
        case {"$digits": count}:
            return "9" * count
        case {"$list": [inner, count]}:
            return json.dumps([inner] * count)
        case {"$deep": ["[", depth]}:
            return "[" * depth + "]" * depth
        case {"$deep": [_, depth]}:
            return '{"a":' * depth + "1" + "}" * depth
    return None
