"""Twitch: streamers of six languages, and whether each uses mature language.

Nodes are streamers, edges mutual friendships, features the games they play and like, where they
live and how they stream: 3,170 in all, shared by the languages. Nodes are sorted by language: DE,
EN and ES train, one environment each, FR is ``ood_val``, PT and RU are ``ood_test``.

Rows that repeat a streamer are left out and counted: the public files have two, in FR. The
published benchmark counts them, and reads other features, 128 numbers per node.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from gsx.errors import StageError
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
from gsx.stages.prepare.readers.csv_tables import read_bytes, read_table, whole_numbers
from gsx.stages.prepare.splitting import SplitRule, assign_splits, sorted_domains
from gsx.stages.prepare.targets import Labels
from gsx.storage.artifacts.manifest import Dropped

NAME = "twitch-language"
FOLDERS = {"DE": "DE", "ENGB": "EN", "ES": "ES", "FR": "FR", "PTBR": "PT", "RU": "RU"}
"""Folder of every language, and what the language is called."""
FEATURES = 3170
_RULE = SplitRule(train=0.6, val=0.2, held_out=0.1, environments=10)
_COUNTS = (14448, 3412, 3412, 6551, 6297)
"""As published, where two streamers are counted twice."""
_PARTS = ("target.csv", "features.json", "edges.csv")
_WHAT = (
    "the Twitch social networks of MUSAE (snap.stanford.edu/data/twitch-social-networks.html): "
    "targets, features and edges of six languages"
)
_ABOUT = NodeCorpusDescription(
    name=NAME,
    domain="language",
    description=(
        "Streamers of Twitch, their mutual friendships, and whether each uses mature language. "
        "Features are games, places and habits, of which a streamer has about twenty. German, "
        "English and Spanish are trained on, French is ood_val, Portuguese and Russian ood_test."
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
    """The streamers of one language."""

    features: Ragged
    mature: Ints
    src: Ints
    dst: Ints
    repeated: list[int]
    """Rows of the targets that name a streamer again."""


def card(name: str) -> DatasetMetadata:
    """Describe the dataset."""
    del name
    raw = tuple(
        RawFile(
            paths=tuple(f"twitch/{folder}/musae_{folder}_{part}{end}" for end in (".gz", "")),
            what=_WHAT,
        )
        for folder in FOLDERS
        for part in _PARTS
    )
    counts = dict(zip(SPLITS, _COUNTS, strict=False))
    return DatasetMetadata(shift="language", level="node", counts=counts, raw=raw)


def open_twitch(order: DatasetRequest) -> PreparedDataset:
    """Read all networks, one language after the other, and split streamers by language."""
    found = list(order.raw.items())
    parts = [read_network(found[start : start + 3]) for start in range(0, len(found), 3)]
    sizes = [len(part.mature) for part in parts]
    first = np.cumsum([0, *sizes])
    keys = [word for word, size in zip(FOLDERS.values(), sizes, strict=True) for _ in range(size)]
    mature = np.concatenate([part.mature for part in parts])
    stream = rng(order.seed, "prepare", NAME, "id")
    graph = NodeGraph(
        features=concat_ragged([part.features for part in parts]),
        num_features=FEATURES,
        src=np.concatenate([part.src + start for part, start in zip(parts, first, strict=False)]),
        dst=np.concatenate([part.dst + start for part, start in zip(parts, first, strict=False)]),
        labels=Labels(
            task="binary",
            metric="roc_auc",
            outputs=("mature",),
            y=mature[:, None].astype(np.float32),
            label=mature,
        ),
        placed=assign_splits(sorted_domains(keys, "language"), _RULE, stream, where=NAME),
    )
    again = [
        (name, row)
        for (name, _), part in zip(found[::3], parts, strict=True)
        for row in part.repeated
    ]
    dropped: tuple[Dropped, ...] = ()
    if again:
        dropped = (
            Dropped(
                reason="rows that repeat a streamer, of which the first is kept",
                count=len(again),
                examples=tuple(f"{name}, row {row}" for name, row in again[:1000]),
            ),
        )
    return node_dataset(graph, _ABOUT, dropped=dropped)


def read_network(files: list[tuple[str, Path]]) -> Network:
    """Read targets, features and edges of one language, each given by its name and path."""
    (target, target_path), (words, words_path), (edges, edges_path) = files
    table = read_table(target_path, target, _WHAT)
    number = whole_numbers(table.column("new_id"), target, "new_id")
    known, first = np.unique(number, return_index=True)
    if not np.array_equal(known, np.arange(len(known))):
        raise StageError(f"{target}: new_id must hold 0..{len(known) - 1} without a gap.")
    cells = table.column("mature")
    strange = [row for row, cell in enumerate(cells) if cell not in ("True", "False")]
    if strange:
        raise StageError(
            f"{target}, row {strange[0]}: mature is `{cells[strange[0]]}`; expected True or False."
        )
    mature = np.array([cell == "True" for cell in cells], dtype=np.int64)
    differ = np.flatnonzero(mature != mature[first][number])
    if len(differ):
        raise StageError(
            f"{target}, row {differ[0]}: streamer {number[differ[0]]} is named again, with another "
            "value of mature."
        )
    repeated = sorted(set(range(len(number))) - set(first.tolist()))
    pairs = read_table(edges_path, edges, _WHAT)
    src, dst = (whole_numbers(pairs.column(end), edges, end) for end in ("from", "to"))
    check_edge_endpoints(src, dst, len(known), edges)
    return Network(
        _features(read_bytes(words_path, words), words, len(known)),
        mature[first],
        src,
        dst,
        repeated,
    )


def _features(data: bytes, name: str, nodes: int) -> Ragged:
    """Return the features of every streamer; a file may name a feature more than once."""
    try:
        lists = msgspec.json.decode(data, type=dict[int, list[int]])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StageError(
            f"{name} should hold one JSON object with a list of whole numbers per streamer: {error}"
        ) from error
    missing = sorted(set(range(nodes)) ^ set(lists))
    if missing:
        raise StageError(
            f"{name} and the targets beside it differ in streamer {missing[0]} "
            f"({len(missing)} such streamers in all). The files of one language belong together."
        )
    counts = np.array([len(lists[node]) for node in range(nodes)])
    column = np.array([each for node in range(nodes) for each in lists[node]], dtype=np.int64)
    row = np.repeat(np.arange(nodes), counts)
    bad = np.flatnonzero((column < 0) | (column >= FEATURES))
    if len(bad):
        raise StageError(
            f"{name}: streamer {row[bad[0]]} has feature {column[bad[0]]}; features are numbered "
            f"0..{FEATURES - 1}."
        )
    return bags_of_words(row, column, nodes)


FAMILY = DatasetFamily(
    names=(NAME,),
    metadata=card,
    size=reject_num_graphs,
    open=open_twitch,
)
