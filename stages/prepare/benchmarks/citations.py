"""Graphs of papers or authors with a bag of words, split by how many words a node has.

``cora-word`` is the published benchmark, on the full Cora graph. ``cora-ml-word`` and
``coauthor-cs-word`` put the same rule to smaller files of the same layout. Training has the nodes
with the most words, testing those with the fewest. Features say which words are there, whatever
their weights; links are read in both directions and loops are left out, as the benchmark does.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as with_fields
from pathlib import Path

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array, Ints, Ragged, row_indices
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
from gsx.stages.prepare.readers.archives import Archive
from gsx.stages.prepare.splitting import SplitRule, assign_splits, sorted_domains
from gsx.stages.prepare.targets import Labels, parse_labels

_RULE = SplitRule(descending=True, train=0.6, val=0.2, held_out=0.1, environments=10)
_LAYOUT = "in the layout of CitationFull (arrays adj_*, attr_* and labels)"
_RAW = {
    "cora-word": RawFile(
        paths=("cora/cora.npz",),
        what=f"the full Cora graph (19,793 papers, abojchevski/graph2gauss), {_LAYOUT}",
    ),
    "cora-ml-word": RawFile(
        paths=("cora_ml/cora_ml.npz",),
        what=f"Cora-ML (2,995 papers, abojchevski/graph2gauss or klicperajo/ppnp), {_LAYOUT}",
    ),
    "coauthor-cs-word": RawFile(
        paths=("coauthor_cs/coauthor_cs.npz",),
        what=f"Coauthor CS (18,333 authors, EdisonLeeeee/GraphData), {_LAYOUT}",
    ),
}
_COUNTS = {
    "cora-word": (9378, 1979, 1979, 3003, 3454),
    "cora-ml-word": (1200, 299, 299, 626, 571),
    "coauthor-cs-word": (7497, 1833, 1833, 3779, 3391),
}
"""Of ``cora-word`` as published, of the others as the rule gives them."""
_NODES = {
    "cora-word": "Papers, links between them, and the field of each.",
    "cora-ml-word": "Papers on machine learning, links between them, and the field of each.",
    "coauthor-cs-word": "Authors of computer science, joined where they wrote together; the class "
    "is an author's field.",
}
_CITATION = {
    "cora-word": "A. Bojchevski, S. Günnemann. Deep Gaussian Embedding of Graphs. ICLR 2018.",
    "cora-ml-word": "A. Bojchevski, S. Günnemann. Deep Gaussian Embedding of Graphs. ICLR 2018.",
    "coauthor-cs-word": "O. Shchur, M. Mumme, A. Bojchevski, S. Günnemann. Pitfalls of Graph "
    "Neural Network Evaluation. 2018.",
}
_SPLITS_CITATION = (
    " Splits follow S. Gui, X. Li, L. Wang, S. Ji. GOOD: A Graph Out-of-Distribution Benchmark. "
    "NeurIPS 2022."
)


@dataclass(frozen=True, slots=True, eq=False)
class Papers:
    """What a file holds."""

    words: Ragged
    width: int
    """Words a node may have."""
    src: Ints
    dst: Ints
    labels: Labels
    loops: int
    """Links of a node to itself, left out."""


def card(name: str) -> DatasetMetadata:
    """Describe a dataset of the family."""
    counts = dict(zip(SPLITS, _COUNTS[name], strict=False))
    return DatasetMetadata(shift="word", level="node", counts=counts, raw=(_RAW[name],))


def open_papers(order: DatasetRequest) -> PreparedDataset:
    """Read the file and split its nodes by how many words they have."""
    ((raw_name, path),) = order.raw.items()
    papers = read_papers(path, raw_name)
    domains = sorted_domains(np.diff(papers.words.ptr).tolist(), "words")
    stream = rng(order.seed, "prepare", order.name, "id")
    graph = NodeGraph(
        features=papers.words,
        num_features=papers.width,
        src=papers.src,
        dst=papers.dst,
        labels=papers.labels,
        placed=assign_splits(domains, _RULE, stream, where=raw_name),
    )
    about = NodeCorpusDescription(
        name=order.name,
        domain="word",
        description=(
            f"{_NODES[order.name]} Features say which words are there. Training nodes have more "
            "words than those of ood_val, and those than ood_test."
        ),
        licence="free for research",
        citation=_CITATION[order.name] + _SPLITS_CITATION,
    )
    warnings = (
        (f"{papers.loops:,} links of a node to itself were left out",) if papers.loops else ()
    )
    return node_dataset(graph, about, warnings=warnings)


def read_papers(path: Path, name: str) -> Papers:
    """Read a file of arrays; nothing that is pickled is read."""
    arrays = _Arrays(path, name)
    ptr, words = arrays.lists("attr")
    nodes = len(ptr) - 1
    shape = arrays.numbers("attr", "shape")
    width = int(shape[1]) if len(shape) == 2 else 0
    if len(shape) != 2 or shape[0] != nodes:
        raise StageError(f"{name}: attr is of {nodes} nodes, and its shape says {shape.tolist()}.")
    bad = np.flatnonzero((words < 0) | (words >= width))
    if len(bad):
        raise StageError(
            f"{name}: attr has word {words[bad[0]]}; words are numbered 0..{width - 1}."
        )
    links, targets = arrays.lists("adj")
    if len(links) - 1 != nodes:
        raise StageError(f"{name}: adj is of {len(links) - 1} nodes, and attr of {nodes}.")
    src = row_indices(links)
    check_edge_endpoints(src, targets, nodes, f"{name}, adj")
    label = arrays.one("labels", "y")
    if label.shape != (nodes,) or label.dtype.kind not in "iu":
        raise StageError(
            f"{name}: labels must be {nodes} whole numbers; found {label.dtype} of shape "
            f"{list(label.shape)}."
        )
    apart = src != targets
    return Papers(
        words=bags_of_words(row_indices(ptr), words, nodes),
        width=width,
        src=src[apart],
        dst=targets[apart],
        labels=_labels(label, arrays, name),
        loops=int((~apart).sum()),
    )


def _labels(label: Array, arrays: _Arrays, name: str) -> Labels:
    found = parse_labels(
        label[:, None].astype(np.float64), ["labels"], "classification", "accuracy", name
    )
    names = arrays.words("class_names")
    if len(names) == len(found.outputs) and len(set(names)) == len(names):
        return with_fields(found, outputs=tuple(names))
    return found


class _Arrays:
    """The arrays of one file, by the names that the layouts in use have for them."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._archive = Archive(path, name)
        self._known = {member.removesuffix(".npy"): member for member in self._archive.members}

    def one(self, *names: str) -> Array:
        """Return the first array of these names that is there."""
        for name in names:
            if name in self._known:
                return self._read(name)
        have = ", ".join(sorted(self._known)[:12]) or "nothing"
        raise StageError(
            f"{self.name} has no array `{names[0]}`; it holds {have}. It should be {_LAYOUT}."
        )

    def numbers(self, part: str, what: str) -> Ints:
        """Return whole numbers, ``part`` being ``adj`` or ``attr``."""
        values = self.one(f"{part}_{what}", f"{part}_matrix.{what}")
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise StageError(f"{self.name}: {part}_{what} must be a list of whole numbers.")
        return values.astype(np.int64)

    def lists(self, part: str) -> tuple[Ints, Ints]:
        """Return pointers ``[N + 1]`` and the columns of every row whose values are not zero."""
        ptr, columns = self.numbers(part, "indptr"), self.numbers(part, "indices")
        if not len(ptr) or ptr[0] or ptr[-1] != len(columns) or (np.diff(ptr) < 0).any():
            raise StageError(
                f"{self.name}: {part}_indptr must rise from 0 to the {len(columns)} values of "
                f"{part}_indices."
            )
        if not {f"{part}_data", f"{part}_matrix.data"} & set(self._known):
            return ptr, columns
        values = self.one(f"{part}_data", f"{part}_matrix.data")
        if values.shape != columns.shape or values.dtype.kind not in "iufb":
            raise StageError(
                f"{self.name}: {part}_data must be as many numbers as {part}_indices has."
            )
        if not np.isfinite(values).all():
            raise StageError(f"{self.name}: {part}_data holds values that are not finite.")
        kept = values != 0
        counts = np.bincount(row_indices(ptr)[kept], minlength=len(ptr) - 1)
        return np.concatenate([[0], np.cumsum(counts)]), columns[kept]

    def words(self, name: str) -> Sequence[str]:
        """Return texts; none where there are none, or where they are pickled."""
        try:
            found = self._read(name) if name in self._known else None
        except StageError:
            return ()
        texts = found is not None and found.dtype.kind == "U" and found.ndim == 1
        return [str(text).strip() for text in found.tolist()] if texts and found is not None else ()

    def _read(self, name: str) -> Array:
        data = self._archive.read(self._known[name])
        try:
            found: Array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            pickled = "Object arrays" in str(error)
            why = "it is pickled, and gsx never unpickles" if pickled else str(error)
            raise StageError(f"{self.name}: `{name}` cannot be read: {why}.") from error
        return found


FAMILY = DatasetFamily(
    names=tuple(_COUNTS),
    metadata=card,
    size=reject_num_graphs,
    open=open_papers,
)
