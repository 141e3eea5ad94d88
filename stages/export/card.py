"""Dataset card: a README with the YAML header that the Hugging Face Hub reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gsx.escape import markdown_code, markdown_text, yaml_document
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
    header = yaml_document(_header(request, shards))
    return f"---\n{header}---\n\n" + "\n".join([*_body(request), ""])


def _header(request: ExportRequest, shards: Mapping[str, set[str]]) -> dict[str, Any]:
    info, graphs = request.corpus.info, len(request.corpus)
    licence = hub_licence_id(info.licence)
    subsets = {
        "source": [path for path, origins in shards.items() if origins == {"source"}],
        "augmented": [path for path, origins in shards.items() if "source" not in origins],
    }
    configs = [_config("default", shards)]
    if all(subsets.values()):
        configs += [_config(name, paths) for name, paths in subsets.items()]
    return {
        "pretty_name": info.name,
        "license": licence or "other",
        **({} if licence else {"license_name": info.licence or "not stated"}),
        "task_categories": ["graph-ml"],
        "tags": ["graphs", "out-of-distribution", "domain-generalization", "gsx"],
        "size_categories": [
            next((category for limit, category in _SIZES if graphs < limit), "10M<n<100M")
        ],
        "configs": configs,
    }


def _config(name: str, paths: Iterable[str]) -> dict[str, Any]:
    shard_paths = list(paths)
    is_default = name == "default"
    data_files = []
    for split in SPLITS:
        split_paths = [path for path in shard_paths if path.startswith(f"data/{split}-")]
        if split_paths:
            data_files.append(
                {
                    "split": "graphs" if split == "all" else split,  # the Hub reserves `all`
                    "path": f"data/{split}-*.parquet" if is_default else split_paths,
                }
            )
    default = {"default": True} if is_default else {}
    return {"config_name": name, **default, "data_files": data_files}


def _body(request: ExportRequest) -> Iterator[str]:
    corpus, info = request.corpus, request.corpus.info
    yield f"# {markdown_text(info.name)}\n"
    yield f"{corpus_description(request, markdown_text)}\n"
    yield from _graphs(request)
    yield "## Loading\n"
    yield from _loading(request)
    yield "## Verification\n"
    yield "```sh\nsha256sum --check SHA256SUMS   # every file"
    yield "gsx verify .                   # every file and every graph, against the manifest\n```\n"
    yield f"Content digest `{corpus.artifact.manifest.digest}` of corpus `{corpus.key}`.\n"
    if request.origin:
        yield f"Before this export it was {markdown_text(request.origin)}.\n"
    yield "## Lineage\n"
    yield from lineage_lines(request, markdown_text, markdown_code)
    yield "\n`lineage/` contains the manifests of the corpus and all its ancestors.\n"
    yield "## Columns\n"
    yield from _columns(request)
    yield "## Limitations\n"
    yield from (f"- {line}" for line in limitations(request, markdown_text))
    yield "\n## Licence and citation\n"
    yield f"{markdown_text(info.licence) or 'No licence given.'}\n"
    yield markdown_text(info.citation) or "No citation given; cite the content digest above."


def _graphs(request: ExportRequest) -> Iterator[str]:
    corpus = request.corpus
    summary = corpus.summary
    nodes = "node_groups" in summary
    names = {row["id"]: row["name"] for row in corpus.environments}
    items, label_names = "nodes" if nodes else "graphs", label_header(corpus.info)
    heads = ["split", "environment", items, *([] if nodes else ["nodes per graph"])]
    heads += [markdown_text(label_names)] if label_names else []
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    groups: Sequence[Mapping[str, Any]] = summary.get("node_groups") or summary["groups"]
    for group in groups:
        env = group["env_id"]
        name = f"{env}: {names.get(env, '')}" if env >= 0 else "unknown"
        cells = [markdown_text(group["split"]), markdown_text(name), f"{group['count']:,}"]
        cells += [] if nodes else [f"{group['min_nodes']} to {group['max_nodes']}"]
        cells += [" / ".join(f"{count:,}" for count in group["labels"])] if label_names else []
        yield f"| {' | '.join(cells)} |"
    yield "\nEnvironments of OOD validation and test are unknown (-1) by design. `env_table.json`"
    yield "describes every environment; `splits/*.csv` lists the items of every split."
    if label_names and any(sum(group["labels"]) < group["count"] for group in groups):
        yield f"{items.capitalize()} without a hard label are not counted per class."
    yield ""


def _loading(request: ExportRequest) -> Iterator[str]:
    shard = request.corpus.shards[0]
    split, first = shard.split, shard.path("parquet")
    yield "```python"
    yield f"import load_pyg; load_pyg.load({split!r})             # PyTorch Geometric, without gsx"
    yield "import gsx; gsx.open('.')                         # with gsx"
    yield "import datasets; datasets.load_dataset('this/directory')  # Hugging Face"
    yield f"import pandas; pandas.read_parquet({first!r})"
    yield f"import polars; polars.scan_parquet('data/{split}-*.parquet')"
    yield f"import duckdb; duckdb.read_parquet('data/{split}-*.parquet')"
    yield "import mlcroissant; mlcroissant.Dataset('croissant.json').records('graphs')\n```\n"


def _columns(request: ExportRequest) -> Iterator[str]:
    yield "One row per graph; no nulls. -1 stands for an unknown number, NaN for a missing value.\n"
    yield "| column | per | type | meaning |\n|---|---|---|---|"
    for column in request.corpus.info.columns:
        type_name = "category" if column.vocabulary else column.dtype
        type_name += f" x {column.width}" if column.width is not None else ""
        type_name = (
            f"list of {type_name}" if column.ragged and column.dtype != "text" else type_name
        )
        cells = (
            markdown_code(column.name),
            column.axis,
            markdown_text(type_name),
            markdown_text(column.doc),
        )
        yield f"| {' | '.join(cells)} |"
    yield ""
