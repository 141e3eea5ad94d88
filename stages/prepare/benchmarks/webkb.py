"""WebKB: pages of three universities, trained on two and tested on the third.

Nodes are pages with a bag of words, edges are links, read in both directions; the class is what a
page is for. Training has Cornell and Texas, one environment each; the first half of Wisconsin in
the order of its file is ``ood_val`` and the second ``ood_test``.

The public files of Cornell and Texas hold the same pages: features and labels are equal byte for
byte, and only links differ. Those of Wisconsin number the classes otherwise: what is class 3 there
is class 2 here, so whoever learns the classes scores next to nothing. Nothing is repaired; the
corpus says so in its warnings. ``webkb-aligned`` is the same with one numbering.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Ints, Ragged, concat_ragged, row_indices
from gsx.schema import SPLITS
from gsx.seeds import rng
from gsx.stages.graphs.label_alignment import SparseEntries, align_labels
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
    count_equal_bags,
    node_dataset,
)
from gsx.stages.prepare.readers.csv_tables import read_bytes, whole_numbers
from gsx.stages.prepare.split_methods import OOD_TEST, OOD_VAL, TRAIN
from gsx.stages.prepare.splitting import SplitRule, assign_splits, sorted_domains
from gsx.stages.prepare.targets import parse_labels

NAME, ALIGNED = "webkb-university", "webkb-aligned"
UNIVERSITIES = ("wisconsin", "cornell", "texas")
"""In the order in which their pages are numbered."""
TESTED = "wisconsin"
MEANING = (1, 0, 3, 4, 2)
"""The class of Cornell and Texas that each class of Wisconsin is, as words tell them best. Sizes
agree: from the largest to the smallest 101, 33, 30, 18 and 1 pages there, 118, 70, 32, 21 and 10
here."""
_RULE = SplitRule(kind="column", train=0.6, val=0.2, held_out=0.1, environments=2)
_COUNTS = (244, 61, 61, 125, 126)
_FILES = ("out1_node_feature_label.txt", "out1_graph_edges.txt")
_HEADERS = (["node_id", "feature", "label"], ["node_id", "node_id"])
_WHAT = (
    "WebKB as Geom-GCN publishes it (graphdml-uiuc-jlu/geom-gcn, new_data): two tables parted by "
    "tabs per university"
)
_ABOUT = NodeCorpusDescription(
    name=NAME,
    domain="university",
    description=(
        "Web pages of three universities; the class is what a page is for. Cornell and Texas are "
        "trained on; pages of Wisconsin are validated and tested on. Links are read in both "
        "directions. The public files of Cornell and Texas have equal features and labels."
    ),
    licence="none stated",
    citation=(
        "H. Pei, B. Wei, K. C.-C. Chang, Y. Lei, B. Yang. Geom-GCN: Geometric Graph Convolutional "
        "Networks. ICLR 2020. Splits follow S. Gui, X. Li, L. Wang, S. Ji. GOOD: A Graph "
        "Out-of-Distribution Benchmark. NeurIPS 2022."
    ),
)
_ALIGNED = replace(
    _ABOUT,
    name=ALIGNED,
    description=(
        f"{_ABOUT.description} They number the classes of Wisconsin otherwise than those of the "
        "others; here these have the numbers of the others, as words tell them best."
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class Pages:
    """The pages of one university."""

    words: Ragged
    width: int
    """Words a page may have."""
    label: Ints
    src: Ints
    dst: Ints


def card(name: str) -> DatasetMetadata:
    """Describe the dataset."""
    del name
    raw = tuple(
        RawFile(paths=(f"webkb/{place}/{file}.gz", f"webkb/{place}/{file}"), what=_WHAT)
        for place in UNIVERSITIES
        for file in _FILES
    )
    counts = dict(zip(SPLITS, _COUNTS, strict=False))
    return DatasetMetadata(shift="university", level="node", counts=counts, raw=raw)


def open_webkb(order: DatasetRequest) -> PreparedDataset:
    """Read all pages, one university after the other, and split them."""
    found = list(order.raw.items())
    pages = [
        read_pages(*(found[2 * number + part] for part in range(2)))
        for number in range(len(UNIVERSITIES))
    ]
    for (name, _), each in zip(found[::2], pages, strict=True):
        if each.width != pages[0].width:
            raise StageError(
                f"{name}: pages have {each.width} words; those of {found[0][0]} have "
                f"{pages[0].width}. The files of one dataset must belong together."
            )
    sizes = [len(each.label) for each in pages]
    first = np.cumsum([0, *sizes])
    owner = np.repeat(np.arange(len(sizes)), sizes)
    words = concat_ragged([each.words for each in pages])
    given = np.full(len(owner), TRAIN)
    tested = np.flatnonzero(owner == UNIVERSITIES.index(TESTED))
    given[tested[: len(tested) // 2]], given[tested[len(tested) // 2 :]] = OOD_VAL, OOD_TEST
    domains = sorted_domains([UNIVERSITIES[number] for number in owner], "university")
    stream = rng(order.seed, "prepare", NAME, "id")
    label = np.concatenate([each.label for each in pages])
    if order.name == ALIGNED:
        label[tested] = np.array(MEANING)[label[tested]]
    graph = NodeGraph(
        features=words,
        num_features=pages[0].width,
        src=np.concatenate([each.src + start for each, start in zip(pages, first, strict=False)]),
        dst=np.concatenate([each.dst + start for each, start in zip(pages, first, strict=False)]),
        labels=parse_labels(
            label[:, None].astype(np.float64), ["label"], "classification", "accuracy", order.name
        ),
        placed=assign_splits(domains, _RULE, stream, where=order.name, given=given),
    )
    about = _ALIGNED if order.name == ALIGNED else _ABOUT
    warnings = [*_twins(words, label, sizes), *_numbers(graph, label, owner)]
    return node_dataset(graph, about, warnings=tuple(warnings))


def _numbers(graph: NodeGraph, label: Ints, owner: Ints) -> Iterator[str]:
    """Say of the tested pages whether their class numbers mean those of training."""
    tested = owner == UNIVERSITIES.index(TESTED)
    words = graph.features
    assert isinstance(words, Ragged)
    entries = SparseEntries(row_indices(words.ptr), words.values, np.ones(len(words.values)))
    found = align_labels(entries, label, ~tested, tested, int(label.max()) + 1)
    if found is not None and found.differs:
        yield (
            f"classes of {TESTED} are numbered otherwise: by their words {found.agreement:.1%} of "
            f"its pages are told as their own class and {found.best:.1%} if classes 0 to "
            f"{len(found.matched_class) - 1} are read as {', '.join(map(str, found.matched_class))}. Scores on "
            f"it say little; prepare {ALIGNED} instead."
        )


def _twins(words: Ragged, label: Ints, sizes: list[int]) -> list[str]:
    """Say which universities hold the same pages in the same order."""
    first, found = np.cumsum([0, *sizes]), []
    for one in range(len(sizes)):
        for two in range(one + 1, len(sizes)):
            if sizes[one] != sizes[two]:
                continue
            left, right = (np.arange(first[each], first[each + 1]) for each in (one, two))
            if (
                count_equal_bags(words, left, right) == sizes[one]
                and (label[left] == label[right]).all()
            ):
                found.append(
                    f"{UNIVERSITIES[one]} and {UNIVERSITIES[two]} hold the same {sizes[one]} "
                    "pages: features and labels are equal, and only links differ. Held-out pages "
                    "of one may be training pages of the other."
                )
    return found


def read_pages(about: tuple[str, Path], links: tuple[str, Path]) -> Pages:
    """Read the two tables of one university, each given by its name and path."""
    name, path = about
    rows = _rows(path, name, _HEADERS[0])
    number = whole_numbers([row[0] for row in rows], name, "node_id")
    if not np.array_equal(np.sort(number), np.arange(len(rows))):
        raise StageError(f"{name}: node_id must hold 0..{len(rows) - 1}, each once.")
    order = np.argsort(number)
    cells = [rows[row][1].split(",") for row in order]
    width = len(cells[0])
    row, column = [], []
    for line, page in zip(order.tolist(), cells, strict=True):
        if len(page) != width:
            raise StageError(f"{name}, row {line}: {len(page)} words; the first page has {width}.")
        strange = set(page) - {"0", "1"}
        if strange:
            raise StageError(
                f"{name}, row {line}: a word is `{min(strange)}`; expected 0 or 1, parted by "
                "commas."
            )
        present = [at for at, cell in enumerate(page) if cell == "1"]
        row += [int(number[line])] * len(present)
        column += present
    edge_name, edge_path = links
    pairs = _rows(edge_path, edge_name, _HEADERS[1])
    src, dst = (
        whole_numbers([pair[end] for pair in pairs], edge_name, "node_id") for end in (0, 1)
    )
    check_edge_endpoints(src, dst, len(rows), edge_name)
    label = whole_numbers([each[2] for each in rows], name, "label")[order]
    words = bags_of_words(
        np.array(row, dtype=np.int64), np.array(column, dtype=np.int64), len(rows)
    )
    return Pages(words, width, label, src, dst)


def _rows(path: Path, name: str, header: list[str]) -> list[list[str]]:
    lines = [line.split("\t") for line in read_bytes(path, name).decode().splitlines() if line]
    if not lines or lines[0] != header:
        have = "\t".join(lines[0])[:60] if lines else "nothing"
        raise StageError(
            f"{name} should begin with `{' '.join(header)}`, parted by tabs; it begins with "
            f"`{have}`. It should be {_WHAT}."
        )
    for number, line in enumerate(lines[1:]):
        if len(line) != len(header):
            raise StageError(
                f"{name}, row {number}: {len(line)} fields; the header has {len(header)}."
            )
    if len(lines) < 2:
        raise StageError(f"{name} has a header and no rows.")
    return lines[1:]


FAMILY = DatasetFamily(
    names=(NAME, ALIGNED),
    metadata=card,
    size=reject_num_graphs,
    open=open_webkb,
)
