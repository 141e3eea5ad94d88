"""The dataset card: a README for people, with the header that the Hugging Face Hub reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gsx.schema import SPLITS
from gsx.stages.export.card_text import about, licence_id, limits, made_by
from gsx.stages.export.request import Given
from gsx.stages.task_text import label_header

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"),
          (1_000_000, "100K<n<1M"), (10_000_000, "1M<n<10M"))  # fmt: skip


def text(given: Given, shards: Mapping[str, set[str]]) -> str:
    """Return the card; ``shards`` are the origins of the graphs of every Parquet file."""
    return "\n".join([*_header(given, shards), "", *_body(given), ""])


def _header(given: Given, shards: Mapping[str, set[str]]) -> Iterator[str]:
    info, graphs = given.corpus.info, len(given.corpus)
    licence = licence_id(info.licence)
    yield "---"
    yield f"pretty_name: {_quoted(info.name)}"
    yield f"license: {licence or 'other'}"
    if not licence:
        yield f"license_name: {_quoted(info.licence or 'not stated')}"
    yield "task_categories:\n- graph-ml"
    yield "tags:\n- graphs\n- out-of-distribution\n- domain-generalization\n- gsx"
    size = next((word for limit, word in _SIZES if graphs < limit), "10M<n<100M")
    yield f"size_categories:\n- {size}"
    yield "configs:"
    yield from _config("default", shards)
    parts = {
        "source": {path for path, origins in shards.items() if origins == {"source"}},
        "augmented": {path for path, origins in shards.items() if "source" not in origins},
    }
    if all(parts.values()):
        for name, chosen in parts.items():
            yield from _config(name, {path: shards[path] for path in shards if path in chosen})
    yield "---"


def _config(name: str, paths: Iterable[str]) -> Iterator[str]:
    chosen = list(paths)
    yield f"- config_name: {name}"
    if name == "default":
        yield "  default: true"
    yield "  data_files:"
    for split in SPLITS:
        mine = [path for path in chosen if path.startswith(f"data/{split}-")]
        if mine:
            yield f"  - split: {'graphs' if split == 'all' else split}"  # `all` is taken there
            if name == "default":
                yield f"    path: data/{split}-*.parquet"
            else:
                yield "    path:"
                yield from (f"    - {path}" for path in mine)


def _body(given: Given) -> Iterator[str]:
    corpus, info = given.corpus, given.corpus.info
    yield f"# {info.name}\n"
    yield f"{about(given)}\n"
    yield from _graphs(given)
    yield "## Load it\n"
    yield from _loading(given)
    yield "## Check it\n"
    yield "```sh\nsha256sum --check SHA256SUMS   # every file"
    yield "gsx verify .                   # every file and every graph, against the manifest\n```\n"
    yield f"Content digest `{corpus.artifact.manifest.digest}` of corpus `{corpus.key}`.\n"
    yield "## How it was made\n"
    yield from made_by(given)
    yield "\nThe manifests of everything it was made from are in `lineage/`.\n"
    yield "## Columns\n"
    yield from _columns(given)
    yield "## What to know before use\n"
    yield from (f"- {line}" for line in limits(given))
    yield "\n## Licence and citation\n"
    yield f"{info.licence or 'No licence was stated.'}\n"
    yield info.citation or "No citation was stated; name the content digest above."


def _graphs(given: Given) -> Iterator[str]:
    corpus = given.corpus
    summary = corpus.artifact.manifest.summary
    nodes = "node_groups" in summary
    names = {row["id"]: row["name"] for row in corpus.environments}
    what, counted = "nodes" if nodes else "graphs", label_header(corpus.info)
    heads = ["split", "environment", what, *([] if nodes else ["nodes per graph"])]
    heads += [_cell(counted)] if counted else []
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    groups = summary["node_groups" if nodes else "groups"]
    for group in groups:
        env = group["env_id"]
        name = f"{env}: {names.get(env, '')}" if env >= 0 else "hidden"
        cells = [group["split"], _cell(name), f"{group['count']:,}"]
        cells += [] if nodes else [f"{group['min_nodes']} to {group['max_nodes']}"]
        cells += [" / ".join(f"{count:,}" for count in group["labels"])] if counted else []
        yield f"| {' | '.join(cells)} |"
    yield "\nEnvironments of OOD validation and test are hidden (-1) on purpose. What each id"
    yield "means is in `env_table.json`; which items a split holds is in `splits/*.csv`."
    if counted and any(sum(group["labels"]) < group["count"] for group in groups):
        yield f"{what.capitalize()} without one plain label, such as soft ones, are in none."
    yield ""


def _loading(given: Given) -> Iterator[str]:
    split = next(iter(given.corpus.splits))
    first = f"data/{split}-00000-of-{_total(given, split):05d}.parquet"
    yield "```python"
    yield f"import load_pyg; load_pyg.load({split!r})             # PyTorch Geometric, without gsx"
    yield "import gsx; gsx.open('.')                         # all there is, with gsx"
    yield "import datasets; datasets.load_dataset('this/directory')  # Hugging Face"
    yield f"import pandas; pandas.read_parquet({first!r})"
    yield f"import polars; polars.scan_parquet('data/{split}-*.parquet')"
    yield f"import duckdb; duckdb.read_parquet('data/{split}-*.parquet')"
    yield "import mlcroissant; mlcroissant.Dataset('croissant.json').records('graphs')\n```\n"


def _total(given: Given, split: str) -> int:
    return next(shard.total for shard in given.corpus.shards if shard.split == split)


def _columns(given: Given) -> Iterator[str]:
    yield "One row per graph; no nulls. -1 stands for an unknown number, NaN for a missing value.\n"
    yield "| column | per | type | meaning |\n|---|---|---|---|"
    for column in given.corpus.info.columns:
        kind = "word" if column.vocabulary else column.dtype
        kind += f" x {column.width}" if column.width is not None else ""
        kind = f"list of {kind}" if column.ragged and column.dtype != "text" else kind
        yield f"| `{column.name}` | {column.axis} | {kind} | {_cell(column.doc)} |"
    yield ""


def _cell(words: str) -> str:
    """Return text that cannot end a cell of a table, or start markup."""
    return " ".join(words.replace("|", "/").replace("<", "&lt;").split())


def _quoted(value: str | Sequence[Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
