"""How features are moved: which of them, in which domains, how far, and away from whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load

from gsx.errors import ArtifactError, StageError, UsageError
from gsx.ragged import Array, Ints
from gsx.schema import CorpusInfo
from gsx.stages.chem.features import molecular
from gsx.stages.generate.featx.feature_extrapolation import Ways, extrapolate, extrapolate_runs
from gsx.stages.graphs.feature_variance import Domains, Floats
from gsx.stages.graphs.node_features import Features
from gsx.storage.artifacts.store import Artifact

if TYPE_CHECKING:
    from gsx.stages.generate.stage import GenerateConfig

ARRAYS = "mask.safetensors"
LIMIT = 1 << 30
ORIGIN = "featx"
_NAMES = ("mask", "low", "high", "step")


@dataclass(frozen=True, slots=True, eq=False)
class MovingRules:
    """What a config and a mask say of moving features."""

    ways: Ways
    """Which features are moved, and how they come back into their domains."""
    shape: float
    scale: float
    """Of the gamma distribution of λ."""
    towards: bool
    """Whether samples go part of the way to their partner instead of away from it."""
    seed: int
    rounds: int = 1
    """Times a sample is moved."""
    ranked: bool = False
    """Whether each node of a graph meets the node of equal rank, instead of all one node."""

    def strengths(self, count: int, stream: np.random.Generator) -> Floats:
        """Draw λ of some pairs; it is negative where samples go towards their partner."""
        if self.towards:
            return -stream.random(count)
        return stream.gamma(self.shape, self.scale, count)

    def move(self, own: Features, partner: Features, strength: Floats) -> Features:
        """Return rows ``own`` with chosen features moved, each away from its partner."""
        return extrapolate(own, partner, strength, self.ways)

    def move_runs(
        self, own: Array, partners: Array, partner: Ints, strength: Floats, ptr: Ints
    ) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Return dense rows moved, runs of them from one row of partners each, and which stay."""
        return extrapolate_runs(own, partners, partner, strength, ptr, self.ways)


def rules_of(
    config: GenerateConfig, inputs: Mapping[str, Artifact], info: CorpusInfo
) -> MovingRules:
    """Read the mask; refuse one that does not fit the corpus or chooses nothing."""
    require_movable(info)
    artifact = inputs["mask"]
    arrays = _arrays(artifact)
    width = len(arrays["mask"])
    where = f"mask {artifact.key[:12]}"
    if width != info.num_features:
        raise UsageError(
            f"{where} is for {width} features; {info.name} has {info.num_features}. Learn one on "
            "it: `gsx pretrain mask`."
        )
    of = artifact.manifest.summary.get("name", info.name)
    if of != info.name:
        raise UsageError(
            f"{where} says which features of {of} vary with the environment, not of {info.name}. "
            "Learn one on it: `gsx pretrain mask`."
        )
    domains = Domains(arrays["low"], arrays["high"], arrays["step"])
    chosen = arrays["mask"] == 1
    if config.featx_features == "all":
        chosen = domains.high > domains.low
    if not chosen.any():
        raise StageError(
            f"nothing to extrapolate: {where} calls no feature of {info.name} non-causal. Move all "
            "of them with `--featx-features all`, or leave FeatX out."
        )
    return MovingRules(
        ways=Ways.of(chosen, domains, mirror=config.featx_ends == "mirror"),
        shape=config.featx_shape,
        scale=config.featx_scale,
        towards=config.featx_direction == "interpolate",
        seed=config.seed,
        rounds=config.featx_rounds,
        ranked=config.featx_partner == "ranked",
    )


def require_movable(info: CorpusInfo) -> None:
    """Refuse a corpus whose features cannot be moved."""
    if molecular(info):
        raise StageError(
            f"{info.name} holds molecules: atoms with other features are other molecules. Leave "
            "FeatX out."
        )
    if info.level == "graph" and info.sparse:
        raise StageError(
            f"{info.name} labels graphs and has sparse features of nodes, which FeatX moves only "
            "where nodes have labels."
        )
    if info.task == "classification" or (info.task == "binary" and len(info.outputs) == 1):
        return
    raise StageError(
        f"{info.name} is {info.task}; FeatX pairs samples of one class, and needs one label of "
        "classes."
    )


def _arrays(artifact: Artifact) -> dict[str, Array]:
    where = f"{artifact.place.url}/{ARRAYS}"
    try:
        found = load(artifact.place.read_bytes(ARRAYS, limit=LIMIT))
    except (FileNotFoundError, SafetensorError) as error:
        raise ArtifactError(f"{where} cannot be read: {error}") from error
    missing = [name for name in _NAMES if name not in found]
    if missing or len({found[name].shape for name in _NAMES}) != 1:
        raise ArtifactError(f"{where} is no mask: it must hold {', '.join(_NAMES)}, equally long.")
    return found
