"""Checks of several models that are used together, such as runs with different seeds."""

from __future__ import annotations

from collections.abc import Sequence

from gsx.errors import UsageError
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.summary import model_scores, selected_rule


def require_distinct(models: Sequence[Artifact]) -> None:
    """Raise UsageError if a model is listed twice."""
    keys = [model.key for model in models]
    repeated = next((key for key in keys if keys.count(key) > 1), None)
    if repeated is not None:
        raise UsageError(f"model {repeated[:12]} is listed twice. List each model once.")


def common_rule(models: Sequence[Artifact]) -> str:
    """Return the selection rule of all models; raise UsageError if they have different ones."""
    rules = {selected_rule(model_scores(model.manifest)): model.key[:12] for model in models}
    if len(rules) > 1:
        selected = ", ".join(f"`{rule}` ({key})" for rule, key in rules.items())
        raise UsageError(
            f"the models select their weights differently: {selected}. Give --selection."
        )
    return next(iter(rules))


def config_differences(models: Sequence[Artifact]) -> list[str]:
    """Return the options other than the seed in which models differ, and ``corpus`` if it does."""
    first = models[0].manifest
    others = [model.manifest for model in models[1:]]
    names = sorted({name for manifest in (first, *others) for name in manifest.config} - {"seed"})
    differing = [n for n in names if any(o.config.get(n) != first.config.get(n) for o in others)]
    digests = [parent.digest for parent in first.parents]
    if any([parent.digest for parent in other.parents] != digests for other in others):
        differing.append("corpus")
    return differing
