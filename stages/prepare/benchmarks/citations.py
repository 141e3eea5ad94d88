"""Citation and coauthor graphs with bag-of-words features, split by number of words per node.

``cora-word`` is the published benchmark on the full Cora graph. ``cora-ml-word`` and
``coauthor-cs-word`` apply the same rule to smaller files with the same layout. Nodes with the most
words are used for training, and nodes with the fewest for testing. Features are binary; weights of
words are ignored. Links are read in both directions and self-loops are removed, as in the
benchmark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from gsx.stages.prepare.readers.names import check_name
from gsx.stages.prepare.readers.npy import parse_npy
from gsx.stages.prepare.splitting import SplitRule, assign_splits, sorted_domains
from gsx.stages.prepare.targets import Labels, parse_labels

_MAX_WORDS = 1 << 24
"""Limit of the vocabulary, of which a file only declares the size."""
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
"""Split sizes: published for ``cora-word``, computed by the rule for the others."""
_NODES = {
    "cora-word": "Papers, links between them, and the field of each.",
    "cora-ml-word": "Papers on machine learning, links between them, and the field of each.",
    "coauthor-cs-word": "Computer scientists, linked if they wrote a paper together; the class is "
    "an author's field.",
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
class WordGraph:
    """Content of a raw file."""

    words: Ragged
    width: int
    """Size of the vocabulary."""
    src: Ints
    dst: Ints
    labels: Labels
    loops: int
    """Number of self-loops, which are removed."""


def metadata(name: str) -> DatasetMetadata:
    """Return the metadata of a dataset."""
    counts = dict(zip(SPLITS, _COUNTS[name], strict=False))
    return DatasetMetadata(shift="word", level="node", counts=counts, raw=(_RAW[name],))


def open_citations(request: DatasetRequest) -> PreparedDataset:
    """Read the file and split its nodes by their number of words."""
    ((raw_name, path),) = request.raw.items()
    content = read_word_graph(path, raw_name)
    domains = sorted_domains(np.diff(content.words.ptr).tolist(), "words")
    stream = rng(request.seed, "prepare", request.name, "id")
    graph = NodeGraph(
        features=content.words,
        num_features=content.width,
        src=content.src,
        dst=content.dst,
        labels=content.labels,
        assignment=assign_splits(domains, _RULE, stream, where=raw_name),
    )
    description = NodeCorpusDescription(
        name=request.name,
        domain="word",
        description=(
            f"{_NODES[request.name]} Features are the words of a paper. Training nodes have more "
            "words than those of ood_val, which have more than those of ood_test."
        ),
        licence="free for research",
        citation=_CITATION[request.name] + _SPLITS_CITATION,
    )
    warnings = (f"{content.loops:,} self-loops were removed",) if content.loops else ()
    return node_dataset(graph, description, warnings=warnings)


def read_word_graph(path: Path, name: str) -> WordGraph:
    """Read an npz file; pickled arrays are not read."""
    arrays = _NpzArrays(path, name)
    ptr, words = arrays.nonzero("attr")
    nodes = len(ptr) - 1
    shape = arrays.integers("attr", "shape")
    width = int(shape[1]) if len(shape) == 2 else 0
    if len(shape) != 2 or shape[0] != nodes:
        raise StageError(f"{name}: attr has {nodes} rows, but attr_shape is {shape.tolist()}.")
    if width > _MAX_WORDS:
        raise StageError(
            f"{name}: attr_shape declares {width:,} words; the limit is {_MAX_WORDS:,}. Remove the "
            "words that no node has."
        )
    invalid = np.flatnonzero((words < 0) | (words >= width))
    if len(invalid):
        raise StageError(
            f"{name}: attr contains word {words[invalid[0]]}; word ids are 0..{width - 1}."
        )
    links, targets = arrays.nonzero("adj")
    if len(links) - 1 != nodes:
        raise StageError(f"{name}: adj has {len(links) - 1} nodes, but attr has {nodes}.")
    src = row_indices(links)
    check_edge_endpoints(src, targets, nodes, f"{name}, adj")
    label = arrays.first("labels", "y")
    if label.shape != (nodes,) or label.dtype.kind not in "iu":
        raise StageError(
            f"{name}: labels must be {nodes} integers (found {label.dtype} of shape "
            f"{list(label.shape)})."
        )
    not_loop = src != targets
    return WordGraph(
        words=bags_of_words(row_indices(ptr), words, nodes),
        width=width,
        src=src[not_loop],
        dst=targets[not_loop],
        labels=_labels(label, arrays, name),
        loops=int((~not_loop).sum()),
    )


def _labels(label: Array, arrays: _NpzArrays, name: str) -> Labels:
    labels = parse_labels(
        label[:, None].astype(np.float64), ["labels"], "classification", "accuracy", name
    )
    names = arrays.texts("class_names")
    if len(names) == len(labels.outputs) and len(set(names)) == len(names):
        return replace(labels, outputs=tuple(names))
    return labels


class _NpzArrays:
    """Arrays of an npz file, under the names that different layouts use."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._archive = Archive(path, name)
        self._members = {member.removesuffix(".npy"): member for member in self._archive.members}

    def first(self, *names: str) -> Array:
        """Return the first existing array of these names."""
        for name in names:
            if name in self._members:
                return self._read(name)
        present = ", ".join(sorted(self._members)[:12]) or "none"
        raise StageError(
            f"{self.name} has no array `{names[0]}` (found {present}). Expected a file {_LAYOUT}."
        )

    def integers(self, matrix: str, field: str) -> Ints:
        """Return an integer array of the sparse matrix ``adj`` or ``attr``."""
        values = self.first(f"{matrix}_{field}", f"{matrix}_matrix.{field}")
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise StageError(f"{self.name}: {matrix}_{field} must be a list of integers.")
        return values.astype(np.int64)

    def nonzero(self, matrix: str) -> tuple[Ints, Ints]:
        """Return pointers ``[N + 1]`` and the columns of the non-zero values of every row."""
        ptr, columns = self.integers(matrix, "indptr"), self.integers(matrix, "indices")
        if not len(ptr) or ptr[0] or ptr[-1] != len(columns) or (np.diff(ptr) < 0).any():
            raise StageError(
                f"{self.name}: {matrix}_indptr must increase from 0 to {len(columns)}, the length "
                f"of {matrix}_indices."
            )
        if not {f"{matrix}_data", f"{matrix}_matrix.data"} & set(self._members):
            return ptr, columns
        values = self.first(f"{matrix}_data", f"{matrix}_matrix.data")
        if values.shape != columns.shape or values.dtype.kind not in "iufb":
            raise StageError(
                f"{self.name}: {matrix}_data and {matrix}_indices must have the same length."
            )
        if not np.isfinite(values).all():
            raise StageError(f"{self.name}: {matrix}_data contains values that are not finite.")
        nonzero = values != 0
        counts = np.bincount(row_indices(ptr)[nonzero], minlength=len(ptr) - 1)
        return np.concatenate([[0], np.cumsum(counts)]), columns[nonzero]

    def texts(self, name: str) -> Sequence[str]:
        """Return an array of texts; empty if it does not exist or is pickled."""
        try:
            array = self._read(name) if name in self._members else None
        except StageError:
            return ()
        if array is None or array.dtype.kind != "U" or array.ndim != 1:
            return ()
        try:
            texts = [str(text).strip() for text in array.tolist()]
        except ValueError as error:  # code points that do not exist
            raise StageError(f"{self.name}: `{name}` cannot be read: {error}.") from error
        for text in texts:
            check_name(text, f"{self.name}: `{name}`")
        return texts

    def _read(self, name: str) -> Array:
        return parse_npy(self._archive.read(self._members[name]), f"{self.name}: `{name}`")


FAMILY = DatasetFamily(
    names=tuple(_COUNTS),
    metadata=metadata,
    size=reject_num_graphs,
    open=open_citations,
)
