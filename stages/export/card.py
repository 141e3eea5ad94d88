"""Dataset card: a README with the YAML header that the Hugging Face Hub reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gsx.schema import SPLITS
from gsx.stages.export.card_text import (
    corpus_description,
    hub_licence_id,
    limitations,
    lineage_lines,
)
from gsx.stages.export.request import ExportRequest
from gsx.stages.task_text import label_header

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"),
          (1_000_000, "100K<n<1M"), (10_000_000, "1M<n<10M"))  # fmt: skip


def dataset_card(request: ExportRequest, shards: Mapping[str, set[str]]) -> str:
    """Return the card; ``shards`` maps every Parquet file to the origins of its graphs."""
    return "\n".join([*_header(request, shards), "", *_body(request), ""])


def _header(request: ExportRequest, shards: Mapping[str, set[str]]) -> Iterator[str]:
    info, graphs = request.corpus.info, len(request.corpus)
    licence = hub_licence_id(info.licence)
    yield "---"
    yield f"pretty_name: {_quoted(info.name)}"
    yield f"license: {licence or 'other'}"
    if not licence:
        yield f"license_name: {_quoted(info.licence or 'not stated')}"
    yield "task_categories:\n- graph-ml"
    yield "tags:\n- graphs\n- out-of-distribution\n- domain-generalization\n- gsx"
    size = next((category for limit, category in _SIZES if graphs < limit), "10M<n<100M")
    yield f"size_categories:\n- {size}"
    yield "configs:"
    yield from _config("default", shards)
    subsets = {
        "source": {path for path, origins in shards.items() if origins == {"source"}},
        "augmented": {path for path, origins in shards.items() if "source" not in origins},
    }
    if all(subsets.values()):
        for name, subset in subsets.items():
            yield from _config(name, {path: shards[path] for path in shards if path in subset})
    yield "---"


def _config(name: str, paths: Iterable[str]) -> Iterator[str]:
    shard_paths = list(paths)
    yield f"- config_name: {name}"
    if name == "default":
        yield "  default: true"
    yield "  data_files:"
    for split in SPLITS:
        split_paths = [path for path in shard_paths if path.startswith(f"data/{split}-")]
        if split_paths:
            yield f"  - split: {'graphs' if split == 'all' else split}"  # the Hub reserves `all`
            if name == "default":
                yield f"    path: data/{split}-*.parquet"
            else:
                yield "    path:"
                yield from (f"    - {path}" for path in split_paths)


def _body(request: ExportRequest) -> Iterator[str]:
    corpus, info = request.corpus, request.corpus.info
    yield f"# {info.name}\n"
    yield f"{corpus_description(request)}\n"
    yield from _graphs(request)
    yield "## Load it\n"
    yield from _loading(request)
    yield "## Check it\n"
    yield "```sh\nsha256sum --check SHA256SUMS   # every file"
    yield "gsx verify .                   # every file and every graph, against the manifest\n```\n"
    yield f"Content digest `{corpus.artifact.manifest.digest}` of corpus `{corpus.key}`.\n"
    yield "## How it was made\n"
    yield from lineage_lines(request)
    yield "\nThe manifests of everything it was made from are in `lineage/`.\n"
    yield "## Columns\n"
    yield from _columns(request)
    yield "## What to know before use\n"
    yield from (f"- {line}" for line in limitations(request))
    yield "\n## Licence and citation\n"
    yield f"{info.licence or 'No licence was stated.'}\n"
    yield info.citation or "No citation was stated; name the content digest above."


def _graphs(request: ExportRequest) -> Iterator[str]:
    corpus = request.corpus
    summary = corpus.artifact.manifest.summary
    nodes = "node_groups" in summary
    names = {row["id"]: row["name"] for row in corpus.environments}
    items, label_names = "nodes" if nodes else "graphs", label_header(corpus.info)
    heads = ["split", "environment", items, *([] if nodes else ["nodes per graph"])]
    heads += [_cell(label_names)] if label_names else []
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    groups = summary["node_groups" if nodes else "groups"]
    for group in groups:
        env = group["env_id"]
        name = f"{env}: {names.get(env, '')}" if env >= 0 else "hidden"
        cells = [group["split"], _cell(name), f"{group['count']:,}"]
        cells += [] if nodes else [f"{group['min_nodes']} to {group['max_nodes']}"]
        cells += [" / ".join(f"{count:,}" for count in group["labels"])] if label_names else []
        yield f"| {' | '.join(cells)} |"
    yield "\nEnvironments of OOD validation and test are hidden (-1) on purpose. What each id"
    yield "means is in `env_table.json`; which items a split holds is in `splits/*.csv`."
    if label_names and any(sum(group["labels"]) < group["count"] for group in groups):
        yield f"{items.capitalize()} without one plain label, such as soft ones, are in none."
    yield ""


def _loading(request: ExportRequest) -> Iterator[str]:
    split = next(iter(request.corpus.splits))
    first = f"data/{split}-00000-of-{_total(request, split):05d}.parquet"
    yield "```python"
    yield f"import load_pyg; load_pyg.load({split!r})             # PyTorch Geometric, without gsx"
    yield "import gsx; gsx.open('.')                         # all there is, with gsx"
    yield "import datasets; datasets.load_dataset('this/directory')  # Hugging Face"
    yield f"import pandas; pandas.read_parquet({first!r})"
    yield f"import polars; polars.scan_parquet('data/{split}-*.parquet')"
    yield f"import duckdb; duckdb.read_parquet('data/{split}-*.parquet')"
    yield "import mlcroissant; mlcroissant.Dataset('croissant.json').records('graphs')\n```\n"


def _total(request: ExportRequest, split: str) -> int:
    return next(shard.total for shard in request.corpus.shards if shard.split == split)


def _columns(request: ExportRequest) -> Iterator[str]:
    yield "One row per graph; no nulls. -1 stands for an unknown number, NaN for a missing value.\n"
    yield "| column | per | type | meaning |\n|---|---|---|---|"
    for column in request.corpus.info.columns:
        type_name = "word" if column.vocabulary else column.dtype
        type_name += f" x {column.width}" if column.width is not None else ""
        type_name = (
            f"list of {type_name}" if column.ragged and column.dtype != "text" else type_name
        )
        yield f"| `{column.name}` | {column.axis} | {type_name} | {_cell(column.doc)} |"
    yield ""


def _cell(text: str) -> str:
    """Escape text for a cell of a Markdown table."""
    return " ".join(text.replace("|", "/").replace("<", "&lt;").split())


def _quoted(value: str | Sequence[Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
