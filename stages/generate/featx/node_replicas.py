"""Replicas of node-labelled graphs with extrapolated features of their training nodes.

A replica holds features, labels, splits and environments of nodes. It stores no edges and shares
those of its source graph. Features of nodes outside the training split are bit-identical.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack

from gsx.errors import StageError, UsageError
from gsx.ragged import Array, Ints
from gsx.schema import CorpusInfo
from gsx.seeds import rng
from gsx.stages.augmented.derived_columns import fill_missing_columns
from gsx.stages.augmented.replicas import replica_columns, without_edges
from gsx.stages.augmented.source_graphs import next_graph_id, source_graphs, training_nodes
from gsx.stages.generate.config import GenerateConfig
from gsx.stages.generate.featx.feature_extrapolation import extrapolate
from gsx.stages.generate.featx.parameters import ORIGIN, FeatxParameters, featx_parameters
from gsx.stages.generate.featx.plan import extrapolated_info
from gsx.stages.graphs.feature_variance import Partners
from gsx.stages.graphs.node_features import Features, feature_columns, node_features
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.table import GraphTable


@dataclass(frozen=True, slots=True, eq=False)
class NodeExtrapolator:
    """Builds replicas of the graphs of a corpus."""

    parameters: FeatxParameters
    info: CorpusInfo
    """Description of the augmented corpus."""
    source: GraphTable
    """Source graphs with all columns."""
    features: Features
    """``[N, F]`` features of all nodes."""
    label: Ints
    """``[N]`` classes of training nodes, -1 for all others."""
    env: Ints
    """``[N]`` environments of training nodes, -1 for all others."""
    extrapolated: Ints
    """Training nodes that have a partner."""
    partners: Partners
    first_id: int
    """``graph_id`` of the first graph of replica 0."""

    @property
    def env_id(self) -> int:
        """Environment of all extrapolated nodes."""
        return self.info.environments[-1].id

    def replica(self, number: int) -> tuple[GraphTable, int]:
        """Build replica ``number`` of all graphs; also return how many nodes are unchanged.

        Only extrapolated nodes are counted.
        """
        name = ("generate", ORIGIN, "replica", number)
        stream = rng(self.parameters.seed, *name)
        rows = self.extrapolated
        own = result = self.features[rows]
        for round_number in range(self.parameters.rounds):
            # Extrapolated nodes have an environment of their own, so after the first round any
            # partner of the label is from another environment.
            env = np.full(len(rows), self.env_id) if round_number else self.env[rows]
            partner = self.partners.draw(self.label[rows], env, stream)
            strength = self.parameters.draw_strengths(len(rows), stream)
            result = extrapolate(
                result, self.features[partner], strength, self.parameters.wrap_around
            )
        node = {
            **self.source.node,
            **feature_columns(_replace_rows(self.features, rows, result)),
            "node_env_id": _fill_rows(self.source.dense("node", "node_env_id"), rows, self.env_id),
            "node_domain_id": _fill_rows(self.source.dense("node", "node_domain_id"), rows, -1),
        }
        columns = replica_columns(
            self.source,
            number,
            first_id=self.first_id,
            origin=ORIGIN,
            stream="/".join(map(str, name)),
        )
        table = without_edges(self.source, node).with_columns(graph=columns)
        return fill_missing_columns(table, self.info), _count_unchanged(own, result)


def load_node_extrapolator(
    config: GenerateConfig, inputs: Mapping[str, Artifact], corpus: Corpus
) -> NodeExtrapolator:
    """Read corpus and mask; raise if no training node has a partner."""
    parameters = featx_parameters(config, inputs, corpus.info)
    source = source_graphs(corpus)
    train = training_nodes(source)
    label, env = (
        _only_rows(source.dense("node", name).astype(np.int64), train)
        for name in ("node_label", "node_env_id")
    )
    partners = Partners.of(label, env)
    extrapolated = train[
        (label[train] >= 0)
        & (env[train] >= 0)
        & (partners.count(label[train], env[train]) > 0)
    ]  # fmt: skip
    if not len(extrapolated):
        raise StageError(
            f"nothing to extrapolate: no training node of {corpus.info.name} has a partner with "
            "its label in another environment. Prepare the corpus with environments."
        )
    interpolate = config.featx_direction == "interpolate"
    return NodeExtrapolator(
        parameters=parameters,
        info=extrapolated_info(corpus.info, interpolate=interpolate),
        source=source,
        features=node_features(source, corpus.info),
        label=label,
        env=env,
        extrapolated=extrapolated,
        partners=partners,
        first_id=next_graph_id(corpus),
    )


def replica_quality(
    config: GenerateConfig, extrapolator: NodeExtrapolator, stats: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return quality metrics of all replicas; raise if all nodes are unchanged."""
    unchanged = sum(shard_stats["unchanged"] for shard_stats in stats)
    extrapolated = config.replicas * len(extrapolator.extrapolated)
    if unchanged == extrapolated:
        raise StageError(
            f"nothing was extrapolated: all training nodes of {extrapolator.info.name} are "
            "unchanged. Extrapolate all features with `--featx-features all`."
        )
    train = training_nodes(extrapolator.source)
    return {
        "replicas": config.replicas,
        "extrapolated_features": int(extrapolator.parameters.wrap_around.mask.sum()),
        "extrapolated_nodes": extrapolated,
        "unchanged": unchanged,
        "without_partner": len(train) - len(extrapolator.extrapolated),
    }


def check_config(config: GenerateConfig, info: CorpusInfo) -> None:
    """Raise if a config has options that do not apply to labelled nodes."""
    if config.options != "000":
        raise UsageError(
            f"{info.name} has node labels; splicing needs labelled graphs. Use `--options 000` "
            "with `--featx`."
        )
    if config.augmented_only:
        raise UsageError(
            "replicas share the edges of their source graph, so the corpus must hold it. Leave "
            "`--augmented-only` out, and train with `--origin featx`."
        )
    if config.featx_partner == "ranked":
        raise UsageError(
            f"{info.name} has node labels: each node has its own partner, so nodes are not matched "
            "by rank. Leave `--featx-partner` out."
        )
    if config.count is not None or config.ratio not in (None, 1.0):
        raise UsageError(
            f"{info.name} has node labels: set the number of replicas with `--replicas`"
        )


def _only_rows(values: Ints, rows: Ints) -> Ints:
    """Return the values of some rows, and -1 for all others."""
    result = np.full(len(values), -1, dtype=np.int64)
    result[rows] = values[rows]
    return result


def _fill_rows(values: Array, rows: Ints, value: int) -> Array:
    """Return a copy of ``values`` with some rows set to ``value``."""
    result: Array = values.copy()
    result[rows] = value
    return result


def _replace_rows(features: Features, rows: Ints, values: Features) -> Features:
    """Return a copy of ``features`` with some rows replaced; all others are bit-identical."""
    if isinstance(features, csr_matrix):
        order = np.arange(features.shape[0])
        order[rows] = features.shape[0] + np.arange(len(rows))
        return csr_matrix(vstack([features, values]))[order]
    result: Array = features.copy()
    result[rows] = values
    return result


def _count_unchanged(own: Features, result: Features) -> int:
    """Return how many rows are equal."""
    if isinstance(own, csr_matrix):
        return int((np.diff((own != result).indptr) == 0).sum())
    return int((~(own != result).any(axis=1)).sum())
