"""Twitch: streamers in six languages with a binary label, the use of mature language.

Nodes are streamers, and edges are mutual friendships. The 3,170 binary features are games, location
and streaming habits, shared by all languages. Nodes are sorted by language: DE, EN and ES are
training environments, FR is ``ood_val``, PT and RU are ``ood_test``.

Repeated rows of a streamer are dropped and counted; the public files have two, in FR. The published
benchmark keeps them, and uses other features (128 numbers per node).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from gsx import typed_values
from gsx.errors import StageError
from gsx.names import shown
from gsx.ragged import Ints, Ragged, concat_ragged
from gsx.schema import SPLITS
from gsx.seeds import rng
from gsx.stages.prepare.dataset import (
    DatasetFamily,
    DatasetMetadata,
    DatasetRequest,
    PreparedDataset,
    RawFile,
    reject_num_graphs,
)
from gsx.stages.prepare.node_dataset import (
    NodeCorpusDescription,
    NodeGraph,
    bags_of_words,
    check_edge_endpoints,
    node_dataset,
)
from gsx.stages.prepare.readers.csv_tables import parse_integers, read_bytes, read_table
from gsx.stages.prepare.splitting import SplitRule, assign_splits, sorted_domains
from gsx.stages.prepare.targets import Labels
from gsx.storage.artifacts.manifest import Dropped

NAME = "twitch-language"
LANGUAGES = {"DE": "DE", "ENGB": "EN", "ES": "ES", "FR": "FR", "PTBR": "PT", "RU": "RU"}
"""Folder → name of a language."""
NUM_FEATURES = 3170
_RULE = SplitRule(train=0.6, val=0.2, held_out=0.1, environments=10)
_COUNTS = (14448, 3412, 3412, 6551, 6297)
"""Published sizes of splits, in which two streamers are counted twice."""
_Id = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=1 << 31)]
_FILES = ("target.csv", "features.json", "edges.csv")
_WHAT = (
    "the Twitch social networks of MUSAE (snap.stanford.edu/data/twitch-social-networks.html): "
    "targets, features and edges of six languages"
)
_DESCRIPTION = NodeCorpusDescription(
    name=NAME,
    domain="language",
    description=(
        "Streamers of Twitch, their mutual friendships, and whether each uses mature language. "
        "Features are games, locations and streaming habits, about twenty per streamer. Training "
        "uses German, English and Spanish, ood_val French, and ood_test Portuguese and Russian."
    ),
    licence="none stated",
    citation=(
        "B. Rozemberczki, C. Allen, R. Sarkar. Multi-Scale Attributed Node Embedding. Journal of "
        "Complex Networks 2021. Splits follow S. Gui, X. Li, L. Wang, S. Ji. GOOD: A Graph "
        "Out-of-Distribution Benchmark. NeurIPS 2022."
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """Streamers of one language."""

    features: Ragged
    mature: Ints
    src: Ints
    dst: Ints
    repeated: list[int]
    """Rows of the target file that repeat a streamer."""


def metadata(name: str) -> DatasetMetadata:
    """Return the metadata of the dataset."""
    del name
    raw = tuple(
        RawFile(
            paths=tuple(f"twitch/{folder}/musae_{folder}_{file}{suffix}" for suffix in (".gz", "")),
            what=_WHAT,
        )
        for folder in LANGUAGES
        for file in _FILES
    )
    counts = dict(zip(SPLITS, _COUNTS, strict=False))
    return DatasetMetadata(shift="language", level="node", counts=counts, raw=raw)


def open_twitch(request: DatasetRequest) -> PreparedDataset:
    """Read the networks of all languages and split streamers by language."""
    files = list(request.raw.items())
    networks = [read_network(files[start : start + 3]) for start in range(0, len(files), 3)]
    sizes = [len(network.mature) for network in networks]
    first = np.cumsum([0, *sizes])
    keys = [
        language
        for language, size in zip(LANGUAGES.values(), sizes, strict=True)
        for _ in range(size)
    ]
    mature = np.concatenate([network.mature for network in networks])
    stream = rng(request.seed, "prepare", NAME, "id")
    graph = NodeGraph(
        features=concat_ragged([network.features for network in networks]),
        num_features=NUM_FEATURES,
        src=np.concatenate(
            [network.src + start for network, start in zip(networks, first, strict=False)]
        ),
        dst=np.concatenate(
            [network.dst + start for network, start in zip(networks, first, strict=False)]
        ),
        labels=Labels(
            task="binary",
            metric="roc_auc",
            outputs=("mature",),
            y=mature[:, None].astype(np.float32),
            label=mature,
        ),
        assignment=assign_splits(sorted_domains(keys, "language"), _RULE, stream, where=NAME),
    )
    repeated = [
        (name, row)
        for (name, _), network in zip(files[::3], networks, strict=True)
        for row in network.repeated
    ]
    dropped: tuple[Dropped, ...] = ()
    if repeated:
        dropped = (
            Dropped(
                reason="repeated rows of a streamer; the first one is kept",
                count=len(repeated),
                examples=tuple(f"{name}, row {row}" for name, row in repeated[:1000]),
            ),
        )
    return node_dataset(graph, _DESCRIPTION, dropped=dropped)


def read_network(files: list[tuple[str, Path]]) -> Network:
    """Read targets, features and edges of one language from three (name, path) pairs."""
    (target, target_path), (words, words_path), (edges, edges_path) = files
    table = read_table(target_path, target, _WHAT)
    ids = parse_integers(table.column("new_id"), target, "new_id")
    distinct, first = np.unique(ids, return_index=True)
    if not np.array_equal(distinct, np.arange(len(distinct))):
        raise StageError(f"{target}: new_id must contain every id in 0..{len(distinct) - 1}.")
    cells = table.column("mature")
    invalid = [row for row, cell in enumerate(cells) if cell not in ("True", "False")]
    if invalid:
        raise StageError(
            f"{target}, row {invalid[0]}: mature is {shown(cells[invalid[0]])}; expected True or "
            "False."
        )
    mature = np.array([cell == "True" for cell in cells], dtype=np.int64)
    conflicts = np.flatnonzero(mature != mature[first][ids])
    if len(conflicts):
        raise StageError(
            f"{target}, row {conflicts[0]}: streamer {ids[conflicts[0]]} is repeated with another "
            "value of mature. Download the file again."
        )
    repeated = sorted(set(range(len(ids))) - set(first.tolist()))
    pairs = read_table(edges_path, edges, _WHAT)
    src, dst = (parse_integers(pairs.column(end), edges, end) for end in ("from", "to"))
    check_edge_endpoints(src, dst, len(distinct), edges)
    return Network(
        _features(read_bytes(words_path, words), words, len(distinct)),
        mature[first],
        src,
        dst,
        repeated,
    )


def _features(data: bytes, name: str, nodes: int) -> Ragged:
    """Return the features of every streamer; a file may repeat a feature."""
    try:
        lists = typed_values.decode_json(data, dict[_Id, list[_Id]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StageError(
            f"{name} must contain one JSON object with a list of integers per streamer: {error}"
        ) from error
    missing = sorted(set(range(nodes)) ^ set(lists))
    if missing:
        raise StageError(
            f"{name} and the target file have different streamers, such as {missing[0]} "
            f"({len(missing)} in total). Use files of the same language."
        )
    counts = np.array([len(lists[node]) for node in range(nodes)])
    column = np.array([feature for node in range(nodes) for feature in lists[node]], dtype=np.int64)
    row = np.repeat(np.arange(nodes), counts)
    invalid = np.flatnonzero((column < 0) | (column >= NUM_FEATURES))
    if len(invalid):
        raise StageError(
            f"{name}: streamer {row[invalid[0]]} has feature {column[invalid[0]]}; feature ids are "
            f"0..{NUM_FEATURES - 1}."
        )
    return bags_of_words(row, column, nodes)


FAMILY = DatasetFamily(
    names=(NAME,),
    metadata=metadata,
    size=reject_num_graphs,
    open=open_twitch,
)
