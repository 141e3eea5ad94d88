"""Pretrain the FeatX mask: which features vary with the environment and do not make the label.

Variances inside labels and inside environments come from one pass over training data; k1, k2 and T
are learned on it. What is known to be true of a dataset's features is used for the report alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from gsx.errors import UsageError
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
    """Root of the random streams that choose, initialize and hide."""
    steps: int = 200
    """Steps of the networks that judge masks."""
    width: int = 32
    """Their hidden units."""
    samples: int = 20_000
    """Training samples they see at most; variances are those of all."""
    domains: tuple[str, ...] = ()
    """Domains of features, such as ``0..1``; others have those that are known of the dataset, or
    else those of the training data."""


def resolve(config: MaskConfig) -> MaskConfig:
    """Refuse what cannot work."""
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
    """Read the training split once, learn the mask and say what it chooses."""
    from safetensors.numpy import save_file

    from gsx.stages.mask import metrics as report
    from gsx.stages.mask.feature_ranges import dataset_ranges, override_ranges
    from gsx.stages.mask.feature_statistics import compute_feature_statistics
    from gsx.stages.mask.mask_search import search_mask

    corpus = Corpus(inputs["corpus"])
    name = corpus.info.name
    evidence = compute_feature_statistics(corpus, seed=config.seed, most=config.samples)
    given = (*dataset_ranges(evidence.domains, name), *config.domains)
    domains = override_ranges(evidence.domains, given, name)
    learned = search_mask(
        evidence,
        steps=config.steps,
        width=config.width,
        seed=config.seed,
        progress=lambda step: progress(step, config.steps),
    )
    arrays = {
        "score": learned.score,
        "mask": learned.mask.astype(np.uint8),
        "within_labels": evidence.in_labels,
        "within_environments": evidence.in_envs,
        "low": domains.low,
        "high": domains.high,
        "step": domains.step,
    }

    def save(path: Path) -> None:
        save_file({key: np.ascontiguousarray(values) for key, values in arrays.items()}, path)

    draft.write(ARRAYS_FILE, save)
    lists = report.features_by_role(evidence, learned, report.feature_names(corpus.info))
    words, quality = report.summary_sentence(lists, name), report.quality(evidence, learned, corpus.info)
    draft.write_bytes("called.json", readable_json({"words": words, **lists}))
    draft.write_bytes("quality.json", readable_json(quality))
    history = {"losses": learned.history, "trials": learned.trials}
    draft.write_bytes("history.json", readable_json(history))
    return StageResult(
        counts={f"{corpus.info.level}s": evidence.total},
        warnings=report.warnings(lists, name),
        summary={
            "name": name,
            "words": words,
            "domains": [*dict.fromkeys(given)],
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
