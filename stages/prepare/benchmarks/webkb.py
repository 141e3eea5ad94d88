"""WebKB: web pages of three universities, trained on two and tested on the third.

Nodes are pages with bag-of-words features, edges are links, read in both directions, and the class
is the purpose of a page. Cornell and Texas are the two training environments. The first half of
Wisconsin, in the order of its file, is ``ood_val``, and the second half is ``ood_test``.

The public files of Cornell and Texas contain the same pages: features and labels are identical, and
only links differ. The files of Wisconsin use another class numbering: class 3 there is class 2
here, so a model that learns the training classes has a test accuracy near zero. The dataset
``webkb-university`` keeps the files as published and adds warnings; ``webkb-aligned`` uses one
numbering for all pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gsx.errors import StageError
from gsx.names import shown
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
from gsx.stages.prepare.readers.csv_tables import parse_integers, read_bytes
from gsx.stages.prepare.split_methods import OOD_TEST, OOD_VAL, TRAIN
from gsx.stages.prepare.splitting import SplitRule, assign_splits, sorted_domains
from gsx.stages.prepare.targets import parse_labels

NAME, ALIGNED_NAME = "webkb-university", "webkb-aligned"
UNIVERSITIES = ("wisconsin", "cornell", "texas")
"""Universities in the order of their node ids."""
TEST_UNIVERSITY = "wisconsin"
ALIGNED_CLASSES = (1, 0, 3, 4, 2)
"""Class of Cornell and Texas that corresponds to each class of Wisconsin, estimated from words.
The ranks of class sizes agree: 101, 33, 30, 18 and 1 pages there, 118, 70, 32, 21 and 10 here."""
_RULE = SplitRule(kind="column", train=0.6, val=0.2, held_out=0.1, environments=2)
_COUNTS = (244, 61, 61, 125, 126)
_FILES = ("out1_node_feature_label.txt", "out1_graph_edges.txt")
_HEADERS = (["node_id", "feature", "label"], ["node_id", "node_id"])
_WHAT = (
    "WebKB as published by Geom-GCN (graphdml-uiuc-jlu/geom-gcn, new_data): two tab-separated "
    "tables per university"
)
_DESCRIPTION = NodeCorpusDescription(
    name=NAME,
    domain="university",
    description=(
        "Web pages of three universities; the class is the role of a page. Training uses Cornell "
        "and Texas, validation and test use Wisconsin. Links are undirected. The public files of "
        "Cornell and Texas have equal features and labels."
    ),
    licence="none stated",
    citation=(
        "H. Pei, B. Wei, K. C.-C. Chang, Y. Lei, B. Yang. Geom-GCN: Geometric Graph Convolutional "
        "Networks. ICLR 2020. Splits follow S. Gui, X. Li, L. Wang, S. Ji. GOOD: A Graph "
        "Out-of-Distribution Benchmark. NeurIPS 2022."
    ),
)
_ALIGNED_DESCRIPTION = replace(
    _DESCRIPTION,
    name=ALIGNED_NAME,
    description=(
        f"{_DESCRIPTION.description} The published files number the classes of Wisconsin "
        "differently; here they are renumbered to match the others, by a comparison of words."
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class Pages:
    """Pages of one university."""

    words: Ragged
    width: int
    """Size of the vocabulary."""
    label: Ints
    src: Ints
    dst: Ints


def metadata(name: str) -> DatasetMetadata:
    """Return the metadata of a dataset."""
    del name
    raw = tuple(
        RawFile(paths=(f"webkb/{university}/{file}.gz", f"webkb/{university}/{file}"), what=_WHAT)
        for university in UNIVERSITIES
        for file in _FILES
    )
    counts = dict(zip(SPLITS, _COUNTS, strict=False))
    return DatasetMetadata(shift="university", level="node", counts=counts, raw=raw)


def open_webkb(request: DatasetRequest) -> PreparedDataset:
    """Read the pages of all universities and split them."""
    files = list(request.raw.items())
    pages = [
        read_pages(*(files[2 * number + kind] for kind in range(2)))
        for number in range(len(UNIVERSITIES))
    ]
    for (name, _), university in zip(files[::2], pages, strict=True):
        if university.width != pages[0].width:
            raise StageError(
                f"{name}: pages have {university.width} words, but pages of {files[0][0]} have "
                f"{pages[0].width}. Use files of the same dataset."
            )
    sizes = [len(university.label) for university in pages]
    first = np.cumsum([0, *sizes])
    owner = np.repeat(np.arange(len(sizes)), sizes)
    words = concat_ragged([university.words for university in pages])
    split = np.full(len(owner), TRAIN)
    tested = np.flatnonzero(owner == UNIVERSITIES.index(TEST_UNIVERSITY))
    split[tested[: len(tested) // 2]], split[tested[len(tested) // 2 :]] = OOD_VAL, OOD_TEST
    domains = sorted_domains([UNIVERSITIES[number] for number in owner], "university")
    stream = rng(request.seed, "prepare", NAME, "id")
    label = np.concatenate([university.label for university in pages])
    if request.name == ALIGNED_NAME:
        label[tested] = np.array(ALIGNED_CLASSES)[label[tested]]
    graph = NodeGraph(
        features=words,
        num_features=pages[0].width,
        src=np.concatenate([p.src + start for p, start in zip(pages, first, strict=False)]),
        dst=np.concatenate([p.dst + start for p, start in zip(pages, first, strict=False)]),
        labels=parse_labels(
            label[:, None].astype(np.float64), ["label"], "classification", "accuracy", request.name
        ),
        assignment=assign_splits(domains, _RULE, stream, where=request.name, preset_split=split),
    )
    description = _ALIGNED_DESCRIPTION if request.name == ALIGNED_NAME else _DESCRIPTION
    warnings = [
        *_duplicate_warnings(words, label, sizes),
        *_numbering_warnings(graph, label, owner),
    ]
    return node_dataset(graph, description, warnings=tuple(warnings))


def _numbering_warnings(graph: NodeGraph, label: Ints, owner: Ints) -> Iterator[str]:
    """Yield a warning if the test pages use another class numbering than the training pages."""
    tested = owner == UNIVERSITIES.index(TEST_UNIVERSITY)
    words = graph.features
    assert isinstance(words, Ragged)
    entries = SparseEntries(row_indices(words.ptr), words.values, np.ones(len(words.values)))
    alignment = align_labels(entries, label, ~tested, tested, int(label.max()) + 1)
    if alignment is not None and alignment.differs:
        yield (
            f"classes of {TEST_UNIVERSITY} are numbered differently: a classifier on words "
            f"predicts the class of {alignment.agreement:.1%} of its pages, and of "
            f"{alignment.best:.1%} if classes 0 to {len(alignment.matched_class) - 1} are "
            f"renumbered as {', '.join(map(str, alignment.matched_class))}. Test scores are not "
            f"meaningful; prepare {ALIGNED_NAME} instead."
        )


def _duplicate_warnings(words: Ragged, label: Ints, sizes: list[int]) -> list[str]:
    """Return a warning for each pair of universities with the same pages in the same order."""
    first, warnings = np.cumsum([0, *sizes]), []
    for one in range(len(sizes)):
        for two in range(one + 1, len(sizes)):
            if sizes[one] != sizes[two]:
                continue
            left, right = (np.arange(first[number], first[number + 1]) for number in (one, two))
            if (
                count_equal_bags(words, left, right) == sizes[one]
                and (label[left] == label[right]).all()
            ):
                warnings.append(
                    f"{UNIVERSITIES[one]} and {UNIVERSITIES[two]} hold the same {sizes[one]} "
                    "pages: features and labels are equal, and only links differ. Held-out pages "
                    "of one may be training pages of the other."
                )
    return warnings


def read_pages(nodes: tuple[str, Path], links: tuple[str, Path]) -> Pages:
    """Read the two tables of one university from (name, path) pairs."""
    name, path = nodes
    rows = _rows(path, name, _HEADERS[0])
    ids = parse_integers([row[0] for row in rows], name, "node_id")
    if not np.array_equal(np.sort(ids), np.arange(len(rows))):
        raise StageError(f"{name}: node_id must contain each of 0..{len(rows) - 1} once.")
    order = np.argsort(ids)
    cells = [rows[row][1].split(",") for row in order]
    width = len(cells[0])
    row, column = [], []
    for line, page in zip(order.tolist(), cells, strict=True):
        if len(page) != width:
            raise StageError(f"{name}, row {line}: {len(page)} words; the first page has {width}.")
        invalid = set(page) - {"0", "1"}
        if invalid:
            raise StageError(
                f"{name}, row {line}: a feature is {shown(min(invalid))}; expected 0 or 1, "
                "separated by commas."
            )
        present = [word for word, cell in enumerate(page) if cell == "1"]
        row += [int(ids[line])] * len(present)
        column += present
    edge_name, edge_path = links
    pairs = _rows(edge_path, edge_name, _HEADERS[1])
    src, dst = (
        parse_integers([pair[side] for pair in pairs], edge_name, "node_id") for side in (0, 1)
    )
    check_edge_endpoints(src, dst, len(rows), edge_name)
    label = parse_integers([fields[2] for fields in rows], name, "label")[order]
    wrong = np.flatnonzero((label < 0) | (label >= len(ALIGNED_CLASSES)))
    if len(wrong):
        raise StageError(
            f"{name}, row {int(order[wrong[0]])}: label is {label[wrong[0]]}; expected 0.."
            f"{len(ALIGNED_CLASSES) - 1}."
        )
    words = bags_of_words(
        np.array(row, dtype=np.int64), np.array(column, dtype=np.int64), len(rows)
    )
    return Pages(words, width, label, src, dst)


def _rows(path: Path, name: str, header: list[str]) -> list[list[str]]:
    lines = [line.split("\t") for line in read_bytes(path, name).decode().splitlines() if line]
    if not lines or lines[0] != header:
        first = "\t".join(lines[0])[:60] if lines else ""
        raise StageError(
            f"{name}: expected the header `{' '.join(header)}`, separated by tabs "
            f"(found `{first}`). Expected {_WHAT}."
        )
    for number, line in enumerate(lines[1:]):
        if len(line) != len(header):
            raise StageError(
                f"{name}, row {number}: {len(line)} fields; the header has {len(header)}."
            )
    if len(lines) < 2:
        raise StageError(f"{name} has a header but no rows.")
    return lines[1:]


FAMILY = DatasetFamily(
    names=(NAME, ALIGNED_NAME),
    metadata=metadata,
    size=reject_num_graphs,
    open=open_webkb,
)
