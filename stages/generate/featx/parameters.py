"""Parameters of feature extrapolation: selected features, their ranges, and strengths λ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gsx.errors import ArtifactError, StageError, UsageError
from gsx.ragged import Array
from gsx.schema import CorpusInfo
from gsx.stages.chem.features import is_molecular
from gsx.stages.generate.config import GenerateConfig
from gsx.stages.generate.featx.feature_extrapolation import WrapAround
from gsx.stages.graphs.feature_variance import FeatureRanges, Floats
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import array, read_arrays
from gsx.storage.corpora.summary import mask_summary, summary_name

MASK_FILE = "mask.safetensors"
ORIGIN = "featx"
_ARRAYS = ("mask", "low", "high", "step")


@dataclass(frozen=True, slots=True, eq=False)
class FeatxParameters:
    """Feature extrapolation as set by a config and a mask."""

    wrap_around: WrapAround
    """Selected features and their ranges."""
    shape: float
    """Shape of the gamma distribution of λ."""
    scale: float
    """Scale of the gamma distribution of λ."""
    interpolate: bool
    """Move features part of the way towards the partner instead of away from it."""
    seed: int
    rounds: int = 1
    """Times each sample is extrapolated, each time with another partner."""
    ranked: bool = False
    """Pair each node with the partner's node of equal rank, instead of all with one node."""

    def draw_strengths(self, count: int, stream: np.random.Generator) -> Floats:
        """Draw λ of ``count`` pairs: gamma distributed, or uniform in (-1, 0] to interpolate."""
        if self.interpolate:
            return -stream.random(count)
        return stream.gamma(self.shape, self.scale, count)


def featx_parameters(
    config: GenerateConfig, inputs: Mapping[str, Artifact], info: CorpusInfo
) -> FeatxParameters:
    """Read the mask; raise if it does not fit the corpus or selects no feature."""
    require_extrapolatable(info)
    artifact = inputs["mask"]
    arrays = _read_mask(artifact)
    width = len(arrays["mask"])
    where = f"mask {artifact.key[:12]}"
    if width != info.num_features:
        raise UsageError(
            f"{where} has {width} features; {info.name} has {info.num_features}. Train one on it: "
            "`gsx pretrain mask`."
        )
    corpus_name = summary_name(artifact.manifest) or info.name
    if corpus_name != info.name:
        raise UsageError(
            f"{where} was trained on {corpus_name}, not on {info.name}. Train one on it: "
            "`gsx pretrain mask`."
        )
    ranges = FeatureRanges(arrays["low"], arrays["high"], arrays["step"])
    selected = arrays["mask"] == 1
    if config.featx_features == "all":
        selected = ranges.high > ranges.low
    if not selected.any():
        raise StageError(
            f"nothing to extrapolate: {where} selects no feature of {info.name}. Extrapolate all "
            "of them with `--featx-features all`, or leave FeatX out."
        )
    return FeatxParameters(
        wrap_around=WrapAround.from_mask(selected, ranges, mirror=config.featx_ends == "mirror"),
        shape=config.featx_shape,
        scale=config.featx_scale,
        interpolate=config.featx_direction == "interpolate",
        seed=config.seed,
        rounds=config.featx_rounds,
        ranked=config.featx_partner == "ranked",
    )


def range_policy_warnings(config: GenerateConfig, mask: Artifact) -> list[str]:
    """Return a statement of the default policy for feature ranges, if it applies.

    Without ``--feature-range`` and without a range that is known for the dataset, extrapolated
    features stay inside the range of the training data.
    """
    given = mask_summary(mask.manifest).get("feature_ranges", [])
    if config.featx_direction == "interpolate" or any("=" not in text for text in given):
        return []
    which = "features without `--feature-range`" if given else "all features"
    ends = "are reflected" if config.featx_ends == "mirror" else "wrap around"
    return [
        f"FeatX: {which} stay inside the range of the training data (default); values beyond it "
        f"{ends}. If test values may be outside, give a larger range, such as `--feature-range "
        "+50%`"
    ]


def require_extrapolatable(info: CorpusInfo) -> None:
    """Raise if the features of a corpus cannot be extrapolated."""
    if is_molecular(info):
        raise StageError(
            f"{info.name} holds molecules, and changed atom features would give other molecules. "
            "Leave FeatX out."
        )
    if info.level == "graph" and info.sparse:
        raise StageError(
            f"{info.name} has graph labels and has sparse node features, which FeatX supports for "
            "labelled nodes only. Leave FeatX out, or prepare dense features."
        )
    if info.task == "classification" or (info.task == "binary" and len(info.outputs) == 1):
        return
    raise StageError(
        f"{info.name} is {info.task}; FeatX pairs samples of the same class and needs one class "
        "label. Leave FeatX out."
    )


def _read_mask(artifact: Artifact) -> dict[str, Array]:
    where = f"{artifact.location.url}/{MASK_FILE}"
    arrays = read_arrays(artifact.location, MASK_FILE)
    width = len(array(arrays, "mask", "uint8", (None,), where))
    low, high, step = (
        array(arrays, name, "float64", (width,), where) for name in ("low", "high", "step")
    )
    if not (np.isfinite([low, high, step]).all() and (low <= high).all() and (step >= 0).all()):
        raise ArtifactError(
            f"{where}: a feature range is not finite, its end is below its start, or its step is "
            "negative. Train the mask again: `gsx pretrain mask --force`."
        )
    return arrays
