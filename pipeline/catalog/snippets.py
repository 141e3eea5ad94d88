"""Commands and code that load an artifact of a catalog."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gsx.pipeline.catalog.html import snippet
from gsx.pipeline.catalog.inventory import Entry
from gsx.storage.artifacts.store import NAME_LENGTH

SHORT = 12
"""Digits of a key in a command; the whole key is on the page."""


def load_section(entry: Entry, address: str) -> str:
    """Return snippets; ``address`` is the directory or URL of the store."""
    return "".join(snippet(title, language, text) for title, language, text in _all(entry, address))


def _all(entry: Entry, address: str) -> Iterator[tuple[str, str, str]]:
    """Yield title, language and text of every snippet."""
    manifest = entry.manifest
    kind, key, store = manifest.kind, manifest.key[:SHORT], shlex.quote(address)
    with_kind = "" if kind == "corpus" else f" --kind {kind}"
    if kind == "corpus":
        yield "Open it in Python", "python", _open_text(entry, address)
    pull = f"gsx pull {key} --from {store}{with_kind}\ngsx show {key}"
    if kind == "corpus":
        pull += f"\ngsx verify {key}"
    if kind == "model":
        pull += f"\ngsx evaluate {key} CORPUS\ngsx predict {key} CORPUS"
    yield "Copy it into your store", "sh", pull
    if kind == "corpus" and (text := _plain_text(entry, address)):
        yield "Read it without gsx", "python", text


def _open_text(entry: Entry, address: str) -> str:
    corpus = entry.corpus
    assert corpus is not None
    split = "train" if "train" in corpus.splits else next(iter(corpus.splits))
    lines = [
        "import gsx",
        "",
        f"corpus = gsx.open({entry.manifest.key[:SHORT]!r}, store={address!r})",
        f"table = corpus.table(split={split!r})        # concatenated arrays and pointers",
    ]
    if corpus.info.level == "graph":
        lines.append(f"loader = corpus.loader(256, split={split!r}, shuffle=True)   # PyG batches")
    else:
        lines.append("data = corpus.to_pyg(dense=True)[0]    # a PyG Data object with masks")
    return "\n".join(lines)


def _plain_text(entry: Entry, address: str) -> str:
    """Return code that reads the first shard; empty if the corpus has no Parquet files."""
    assert entry.corpus is not None
    shard = entry.corpus.shards[0].path("parquet")
    if shard not in entry.manifest.files:
        return ""
    generation = f".g{entry.facts.generation}" if entry.facts.generation > 1 else ""
    folder = f"{address}/corpus/{entry.manifest.key[:NAME_LENGTH]}{generation}"
    return f"import pandas\n\nframe = pandas.read_parquet({f'{folder}/{shard}'!r})"
