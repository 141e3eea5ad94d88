"""Random bridges: uniform node pairs, with the frequencies of cuts of training graphs.

They need no trained model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gsx.ragged import Ints
from gsx.schema import CorpusInfo
from gsx.stages.chem.splice_rules import cuttable_edges
from gsx.stages.graphs.cut_frequencies import Codebook, cut_frequencies, frequent_rows
from gsx.stages.graphs.subgraphs import Bools, Floats
from gsx.stages.graphs.weighted_sampling import sample_uniformly
from gsx.stages.nn.bridge_model import BridgeModel, BridgeShape
from gsx.stages.nn.bridge_sampling import Attachments, Bridges
from gsx.table import GraphTable

SAMPLED_GRAPHS = 4096
"""Training graphs whose cuts are counted."""


@dataclass(frozen=True, slots=True, eq=False)
class RandomBridges:
    """Draws bridges between uniform node pairs."""

    count_rates: Floats
    """Probabilities of 1, 2, … bridges."""
    attributes: Codebook
    """Codebook of edge attributes, most frequent first; empty without edge attributes."""
    attribute_rates: tuple[float, ...]
    bridge_nodes: Codebook
    """Codebook of features of bridge nodes, most frequent first."""
    node_rates: tuple[float, ...]

    @classmethod
    def from_graphs(
        cls, train: GraphTable, info: CorpusInfo, stream: np.random.Generator
    ) -> RandomBridges:
        """Count what random cuts remove from a sample of graphs, and their node features."""
        rows = np.arange(len(train))
        if len(rows) > SAMPLED_GRAPHS:
            rows = np.sort(stream.permutation(len(rows))[:SAMPLED_GRAPHS])
        sample = train.take(rows)
        frequencies = cut_frequencies(sample, stream, cuttable_edges(sample, info))
        attributes, attribute_rates = frequencies.attributes, frequencies.attribute_rates
        if not attributes and "edge_attr" in train.edge:  # no graph can be cut
            attributes, attribute_rates = frequent_rows(sample.dense("edge", "edge_attr"))
        nodes, node_rates = frequent_rows(sample.dense("node", "node_feat"))
        return cls(frequencies.counts, attributes, attribute_rates, nodes, node_rates)

    def sample(
        self,
        attachments: Attachments,
        stream: np.random.Generator,
        free: Bools | None = None,
        fixed_counts: Ints | None = None,
    ) -> Bridges:
        """Draw the bridges of some attachments.

        ``free`` ``[N]`` are the nodes that may get a bridge. ``fixed_counts`` ``[P]`` sets the
        number of bridges of each attachment; 0 leaves it to the frequencies.
        """
        counts = 1 + _draw(self.count_rates, len(attachments), stream)
        if fixed_counts is not None:
            counts = np.where(fixed_counts > 0, fixed_counts, counts)
        usable = attachments if free is None else attachments.restrict_to(free)
        pairs = usable.left_count * usable.right_count
        attachment, pair = sample_uniformly(pairs, np.minimum(counts, pairs), stream)
        left, right = np.divmod(pair, usable.right_count[attachment])
        left, right = usable.left_start[attachment] + left, usable.right_start[attachment] + right
        if free is not None:
            nodes = np.flatnonzero(free)
            left, right = nodes[left], nodes[right]
        return Bridges(attachment, left, right, *self.sample_codes(len(left), stream))

    def sample_codes(self, count: int, stream: np.random.Generator) -> tuple[Ints, Ints]:
        """Draw attribute and bridge node of ``count`` bridges, as rows of the codebooks."""
        return _draw(self.attribute_rates, count, stream), _draw(self.node_rates, count, stream)


BridgeSource = BridgeModel | RandomBridges
"""What draws bridges: a trained model, or frequencies."""


def codebooks(source: BridgeSource) -> BridgeShape | RandomBridges:
    """Return the object that holds the codebooks of a source."""
    return source if isinstance(source, RandomBridges) else source.shape


def _draw(rates: Floats | tuple[float, ...], count: int, stream: np.random.Generator) -> Ints:
    """Draw ``count`` indices with the given probabilities; zeros if there are fewer than two."""
    if len(rates) < 2:
        return np.zeros(count, dtype=np.int64)
    drawn = np.searchsorted(np.cumsum(rates), stream.random(count), side="right")
    return np.minimum(drawn, len(rates) - 1)
