"""Pretrain the FeatX mask, which selects environment-dependent features that do not cause labels.

Variances within labels and environments come from one pass over the training data; k1, k2 and T are
searched on the same data. The true mask of a dataset, if known, is used for reported metrics only.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from gsx.errors import UsageError
from gsx.ragged import Array
from gsx.stages.stage import Progress, Stage
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus

ARRAYS_FILE = "mask.safetensors"


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
    domains: tuple[str, ...] = ()
    """Feature ranges, such as ``0..1``. Other features have the range known for the dataset, or
    else that of the training data."""


def resolve(config: MaskConfig) -> MaskConfig:
    """Reject options that are out of range."""
    for name in ("steps", "width"):
        if getattr(config, name) < 1:
            raise UsageError(f"{name} must be at least 1; got {getattr(config, name)}")
    if config.samples < 10:
        raise UsageError(f"samples must be at least 10; got {config.samples}")
    if config.domains:
        from gsx.stages.mask.feature_ranges import parse_feature_range

        for text in config.domains:
            parse_feature_range(text)
    return config


def run(
    config: MaskConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> StageResult:
    """Read the training split once, search the mask and write it with a summary."""
    from gsx.stages.mask import metrics
    from gsx.stages.mask.feature_ranges import dataset_ranges, override_ranges
    from gsx.stages.mask.feature_statistics import compute_feature_statistics
    from gsx.stages.mask.mask_search import search_mask

    corpus = Corpus(inputs["corpus"])
    name = corpus.info.name
    statistics = compute_feature_statistics(corpus, seed=config.seed, max_samples=config.samples)
    range_texts = (*dataset_ranges(statistics.ranges, name), *config.domains)
    ranges = override_ranges(statistics.ranges, range_texts, name)
    learned = search_mask(
        statistics,
        steps=config.steps,
        width=config.width,
        seed=config.seed,
        progress=lambda step: progress(step, config.steps),
    )
    arrays: dict[str, Array] = {
        "score": learned.score,
        "mask": learned.mask.astype(np.uint8),
        "within_labels": statistics.within_labels,
        "within_environments": statistics.within_environments,
        "low": ranges.low,
        "high": ranges.high,
        "step": ranges.step,
    }
    draft.write_arrays(ARRAYS_FILE, arrays)
    roles = metrics.features_by_role(statistics, learned, metrics.feature_names(corpus.info))
    words = metrics.summary_sentence(roles, name)
    quality = metrics.quality(statistics, learned, corpus.info)
    draft.write_bytes("called.json", readable_json({"words": words, **roles}))
    draft.write_bytes("quality.json", readable_json(quality))
    history = {"losses": learned.history, "trials": learned.trials}
    draft.write_bytes("history.json", readable_json(history))
    return StageResult(
        counts={f"{corpus.info.level}s": statistics.num_samples},
        warnings=metrics.warnings(roles, name),
        summary={
            "name": name,
            "words": words,
            "domains": [*dict.fromkeys(range_texts)],
            "quality": quality,
        },
    )


STAGE = Stage(
    module=__name__,
    name="mask",
    version=2,
    kind="mask",
    config=MaskConfig,
    inputs={"corpus": "prepare"},
    resolve=resolve,
    run=run,
    one_thread=True,
    seeds=lambda config: {"mask": config.seed},
)
