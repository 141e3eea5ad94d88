"""Pretrain the FeatX mask, which selects environment-dependent features that do not cause labels.

Variances within labels and environments come from one pass over the training data; k1, k2 and T are
searched on the same data, or trained with a classifier as in the paper. A mask may also be given by
hand. The true mask of a dataset, if known, is used for reported metrics only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from gsx.errors import UsageError
from gsx.ragged import Array
from gsx.stages.stage import Progress, Stage
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import JsonFile
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.summary import MaskFeatures, MaskHistory, MaskQuality

if TYPE_CHECKING:
    from gsx.stages.graphs.feature_variance import FeatureRanges
    from gsx.stages.mask.feature_statistics import FeatureStatistics
    from gsx.stages.mask.mask_search import LearnedMask

ARRAYS_FILE = "mask.safetensors"
FEATURES_FILE = "features.json"
QUALITY_FILE = "quality.json"
HISTORY_FILE = "history.json"
JSON_FILES = {
    FEATURES_FILE: JsonFile(MaskFeatures),
    QUALITY_FILE: JsonFile(MaskQuality),
    HISTORY_FILE: JsonFile(MaskHistory),
}


class MaskConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[mask]``."""

    seed: int = 0
    """Root seed of the random streams for sampling, initialization and replaced features."""
    steps: int = 200
    """Training steps of the networks that compare masks."""
    width: int = 32
    """Hidden units of these networks."""
    samples: int = 20_000
    """Maximum number of training samples for these networks; variances use all samples."""
    feature_ranges: tuple[str, ...] = ()
    """Feature ranges, such as ``0..1``. Other features have the range known for the dataset, or
    else that of the training data."""
    rule: Literal["search", "paper"] = "search"
    """How features are selected: the mask that hides the environment best, or the paper's score
    with k1, k2 and T trained jointly with a classifier."""
    features: tuple[str, ...] = ()
    """Features to extrapolate, by name or number; then no mask is learned."""


def resolve(config: MaskConfig) -> MaskConfig:
    """Reject options that are out of range."""
    for name in ("steps", "width"):
        if getattr(config, name) < 1:
            raise UsageError(f"{name} must be at least 1; got {getattr(config, name)}")
    if config.samples < 10:
        raise UsageError(f"samples must be at least 10; got {config.samples}")
    if config.feature_ranges:
        from gsx.stages.mask.feature_ranges import parse_feature_range

        for text in config.feature_ranges:
            parse_feature_range(text)
    if config.features and config.rule != "search":
        raise UsageError(
            f"features are given, so the rule `{config.rule}` has nothing to select. Remove one of "
            "both."
        )
    return config


def run(
    config: MaskConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> StageResult:
    """Read the training split, learn the mask and write it with a summary."""
    from gsx.stages.mask import metrics
    from gsx.stages.mask.feature_ranges import dataset_ranges, override_ranges
    from gsx.stages.mask.feature_statistics import compute_feature_statistics
    from gsx.stages.mask.given_mask import select_features

    corpus = Corpus(inputs["corpus"])
    name, names = corpus.info.name, metrics.feature_names(corpus.info)
    given = select_features(config.features, names, name) if config.features else None
    rule = config.rule if given is None else "given"
    statistics = compute_feature_statistics(corpus, seed=config.seed, max_samples=config.samples)
    range_texts = (*dataset_ranges(statistics.ranges, name), *config.feature_ranges)
    ranges = override_ranges(statistics.ranges, range_texts, name, names)
    learned = _learn(config, corpus, statistics, ranges, given, progress)
    arrays: dict[str, Array] = {
        "score": learned.score,
        "mask": learned.mask.astype(np.uint8),
        "within_labels": statistics.within_labels,
        "within_environments": statistics.within_environments,
        "low": ranges.low,
        "high": ranges.high,
        "step": ranges.step,
    }
    if rule == "paper":
        arrays["label_variance"] = statistics.label_variance
        arrays["environment_variance"] = statistics.environment_variance
    draft.write_arrays(ARRAYS_FILE, arrays)
    roles = metrics.features_by_role(statistics, learned, names)
    description = metrics.summary_sentence(roles, name, rule)
    quality = metrics.quality(statistics, learned, corpus.info, rule)
    draft.write_bytes(FEATURES_FILE, readable_json({"description": description, **roles}))
    draft.write_bytes(QUALITY_FILE, readable_json(quality))
    history = {"losses": learned.history, "trials": learned.trials}
    draft.write_bytes(HISTORY_FILE, readable_json(history))
    return StageResult(
        counts={f"{corpus.info.level}s": statistics.num_samples},
        warnings=metrics.warnings(roles, name, rule),
        summary={
            "name": name,
            "description": description,
            "feature_ranges": [*dict.fromkeys(range_texts)],
            "quality": quality,
        },
    )


def _learn(
    config: MaskConfig,
    corpus: Corpus,
    statistics: FeatureStatistics,
    ranges: FeatureRanges,
    given: Array | None,
    progress: Progress,
) -> LearnedMask:
    """Return the given mask, or learn one by the rule of a config."""
    from gsx.stages.mask.metrics import feature_names

    def report(step: int) -> None:
        progress(step, config.steps)

    if given is not None:
        from gsx.stages.mask.given_mask import given_mask

        return given_mask(statistics, given, feature_names(corpus.info))
    options = {"steps": config.steps, "width": config.width, "seed": config.seed}
    if config.rule == "paper":
        from gsx.stages.mask.extrapolated_samples import read_training_samples
        from gsx.stages.mask.paper_mask import learn_paper_mask

        samples = read_training_samples(corpus, seed=config.seed, max_samples=config.samples)
        return learn_paper_mask(statistics, samples, ranges, **options, progress=report)
    from gsx.stages.mask.mask_search import search_mask

    return search_mask(statistics, **options, progress=report)


STAGE = Stage(
    module=__name__,
    name="mask",
    version=3,
    kind="mask",
    config=MaskConfig,
    json_files=lambda: JSON_FILES,
    inputs={"corpus": "prepare"},
    resolve=resolve,
    run=run,
    one_thread=True,
    seeds=lambda config: {"mask": config.seed},
    added_options={"rule": "search", "features": ()},
)
