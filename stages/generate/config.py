"""Options of ``gsx generate`` and their checks."""

from __future__ import annotations

from typing import Literal

import msgspec

from gsx.errors import UsageError
from gsx.storage.corpora.corpus_writer import SHARD_GRAPHS, Format

Option = Literal[1, 2, 3]
"""Which components are spliced: 1 causal subgraphs alone, 2 causal with environmental subgraphs,
3 whole graphs."""
MAX_COMPONENTS = 16
MAX_GROWTH = 64


class GenerateConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[generate]``."""

    options: str = "111"
    """Three bits that enable options 1 to 3: causal subgraphs alone, causal with environmental
    subgraphs, whole graphs."""
    f: tuple[int, int] = (2, 4)
    """Minimum and maximum number of environmental subgraphs (option 2) or whole graphs (option 3)
    per spliced graph."""
    ratio: float | None = None
    """Generated graphs of each option per training graph; 1 if ``count`` is not set either."""
    count: int | None = None
    """Exact number of generated graphs of each option."""
    partners: Literal["any", "same-class", "same-component"] = "any"
    """Which components are spliced together: any, those of one class, or repetitions of the same
    component."""
    balanced: bool = False
    """Draw the lead component with equal probability per class."""
    labels: Literal["average", "any", "all", "sum", "size-scaled"] = "average"
    """Label rule of option 3: mean of the labels as in the paper; logical OR or AND of binary
    labels; sum of regression targets. ``size-scaled`` moves the mean along the linear trend of
    training targets over size, for all options."""
    label_conflicts: Literal["merge", "reject", "keep"] = "merge"
    """Equal causal subgraphs with different labels (option 1): give all of them the mean label,
    leave them out, or keep their labels as in the paper."""
    min_causal_nodes: int = 3
    """Smallest causal subgraph that becomes a graph of its own (option 1), in nodes. A node or an
    edge alone carries no information about the label."""
    fragments: int = 0
    """How many times environmental subgraphs are cut; the fragments are spliced too (option 2)."""
    grow: float = 0.0
    """Largest size of an enlarged environmental subgraph, as a multiple of the largest training
    graph (option 2). 0 disables growth."""
    chords: float = 0.0
    """Random edges added per edge of a spliced graph, never inside a causal subgraph."""
    attach: Literal["tree", "chain", "star"] = "tree"
    """Which component a bridge attaches the next one to: a random earlier one, the previous one, or
    the first one."""
    bridges: Literal["learned", "random", "none"] = "learned"
    """How the end nodes of bridges are chosen: by a trained model, or uniformly; ``none`` leaves
    components disconnected."""
    ports: Literal["any", "own"] = "any"
    """Where bridges attach to a causal subgraph: anywhere, or at the nodes that connected it to the
    rest of its source graph."""
    bridge_count: Literal["expected", "sampled"] = "expected"
    """Number of bridges: the expected number, or a sample of the predicted distribution."""
    attributes: Literal["learned", "fixed"] = "learned"
    """Bridge attributes: sampled, or always the most frequent ones."""
    bridge_nodes: bool = False
    """Put a new node into the middle of every bridge."""
    featx: bool = False
    """Extrapolate features of source graphs, and of spliced graphs if an option is enabled. With
    options 000, features are extrapolated without splicing."""
    featx_features: Literal["selected", "all"] = "selected"
    """Features to extrapolate: those of the feature mask, or all that vary."""
    featx_direction: Literal["extrapolate", "interpolate"] = "extrapolate"
    """Move features away from the partner's, or part of the way towards them."""
    featx_shape: float = 2.0
    """Shape of the gamma distribution of λ."""
    featx_scale: float = 0.5
    """Scale of the gamma distribution of λ."""
    featx_rounds: int = 1
    """How many times each sample is extrapolated, each time with another partner. One partner
    extends a line; several partners span a higher-dimensional set."""
    featx_partner: Literal["node", "ranked"] = "node"
    """Of graph-labelled corpora: one random node of the partner for all nodes, as in the paper, or
    for each node the partner's node of equal rank."""
    featx_ends: Literal["around", "mirror"] = "around"
    """Values beyond their feature range wrap around, as in the paper, or are reflected."""
    replicas: int = 4
    """Of node-labelled corpora: number of replicas with extrapolated features."""
    augmented_only: bool = False
    """Leave the source graphs out of the corpus."""
    seed: int = 0
    """Root of the random streams."""
    shard_graphs: int = SHARD_GRAPHS
    """Graphs per file; fewer if graphs are large."""
    formats: tuple[Format, ...] = ("parquet",)
    """File formats of the shards."""

    @property
    def enabled(self) -> tuple[Option, ...]:
        """The numbers of the enabled options."""
        numbers: tuple[Option, ...] = (1, 2, 3)
        return tuple(n for n, bit in zip(numbers, self.options, strict=True) if bit == "1")


def resolve(config: GenerateConfig) -> GenerateConfig:
    """Check a config and fill in the default ratio."""
    _check_options(config)
    _check_growth(config)
    _check_featx(config)
    if config.ratio is not None and config.count is not None:
        raise UsageError("give `ratio` or `count`, not both")
    if config.count is not None and config.count < 1:
        raise UsageError(f"count must be at least 1; got {config.count}")
    ratio = 1.0 if config.ratio is None and config.count is None else config.ratio
    if ratio is not None and not 0 < ratio < float("inf"):
        raise UsageError(f"ratio must be positive; got {ratio}")
    if config.shard_graphs < 1:
        raise UsageError(f"shard_graphs must be at least 1; got {config.shard_graphs}")
    if not config.formats or len(set(config.formats)) != len(config.formats):
        raise UsageError("formats must name `parquet`, `zarr` or both, each once")
    formats = tuple(sorted(config.formats))
    return msgspec.structs.replace(config, ratio=ratio, formats=formats)


def _check_options(config: GenerateConfig) -> None:
    """Check which components are spliced, how many, and how they are labelled."""
    if len(config.options) != 3 or set(config.options) - {"0", "1"}:
        raise UsageError(f"options must be three bits such as 101; got `{config.options}`")
    if config.options == "000" and not config.featx:
        raise UsageError(
            "options 000 generates nothing. Enable at least one option, such as 001, or featx."
        )
    low, high = config.f
    if not 1 <= low <= high <= MAX_COMPONENTS:
        raise UsageError(
            f"f must be a range within 1..{MAX_COMPONENTS}, from low to high; got {low}..{high}"
        )
    if config.options == "001" and high < 2:
        raise UsageError("option 3 splices at least two graphs; give an f of at least 2")
    if config.labels not in ("average", "size-scaled") and config.options[2] == "0":
        raise UsageError("labels applies to whole graphs; enable option 3, such as 001")
    if config.min_causal_nodes < 1:
        raise UsageError(f"min_causal_nodes must be at least 1; got {config.min_causal_nodes}")
    if not 0 <= config.fragments <= MAX_COMPONENTS:
        raise UsageError(f"fragments must be in 0..{MAX_COMPONENTS}; got {config.fragments}")


def _check_growth(config: GenerateConfig) -> None:
    """Check growth and random edges."""
    if not 0 <= config.grow <= MAX_GROWTH or 0 < config.grow < 1:
        raise UsageError(f"grow must be 0 or in 1..{MAX_GROWTH}; got {config.grow:g}")
    if config.grow and config.bridges == "none":
        raise UsageError("grow connects copies with bridges; use `bridges` other than none")
    if config.grow and config.options[1] == "0":
        raise UsageError("grow applies to environmental subgraphs; enable option 2, such as 010")
    if not 0 <= config.chords <= 1:
        raise UsageError(f"chords must be in [0, 1]; got {config.chords:g}")
    if config.chords and config.bridges == "none":
        raise UsageError(
            "chords would connect the components that `bridges = none` keeps disconnected; leave "
            "one of them out"
        )


def _check_featx(config: GenerateConfig) -> None:
    """Check the gamma distribution and the counts of feature extrapolation."""
    for name in ("featx_shape", "featx_scale"):
        if not 0 < getattr(config, name) < float("inf"):
            raise UsageError(f"{name} must be positive; got {getattr(config, name):g}")
    for name in ("featx_rounds", "replicas"):
        if getattr(config, name) < 1:
            raise UsageError(f"{name} must be at least 1; got {getattr(config, name)}")


def needs(config: GenerateConfig) -> frozenset[str]:
    """Return the roles of the input artifacts that a config uses."""
    roles = {"corpus"}
    if config.options not in ("001", "000"):
        roles.add("extractor")
    if config.bridges == "learned" and config.options not in ("100", "000"):
        roles.add("bridge")
    if config.featx:
        roles.add("mask")
    return frozenset(roles)
