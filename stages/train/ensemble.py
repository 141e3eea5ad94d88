"""Predictions of one model, or of an ensemble such as runs with several seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from gsx.errors import UsageError
from gsx.escape import column_names
from gsx.ragged import Array
from gsx.stages.nn.build_network import Network
from gsx.stages.train.classical import ClassicalDescription, ClassicalModel
from gsx.stages.train.evaluate import Description, is_classical, load_classical, load_model
from gsx.stages.train.known_categories import KnownCategories, read_known_categories
from gsx.stages.train.stage import WEIGHTS
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import read_json
from gsx.storage.corpora.corpus import Corpus

AnyDescription = Description | ClassicalDescription


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Ensemble:
    """One or several models with the same task and outputs."""

    models: tuple[Network | ClassicalModel, ...]
    descriptions: tuple[AnyDescription, ...]
    task: str
    outputs: tuple[str, ...]
    """Names of the classes, tasks or values."""
    named: bool
    """Whether the names are those of a training corpus, or only numbers."""
    categories: tuple[KnownCategories, ...]
    """Categories of each training corpus that is available."""
    device: torch.device


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Prediction:
    """Mean prediction of an ensemble, and its uncertainty."""

    mean: Array
    """``[G, C]`` probabilities; for regression, values."""
    std: Array | None
    """``[G, C]`` unbiased standard deviation over models; None for one model."""
    entropy: Array | None
    """``[G]`` entropy of the mean prediction in bits, the mean over tasks; None for regression."""
    mutual_information: Array | None
    """``[G]`` part of the entropy that comes from differences between models; None for one model
    and for regression."""


def open_ensemble(
    artifacts: Sequence[Artifact],
    corpora: Sequence[Corpus | None],
    rule: str,
    device: torch.device,
) -> Ensemble:
    """Load models with the weights that ``rule`` selects.

    ``corpora`` are their training corpora, as far as they are available. They give the names of the
    outputs and the categories that training graphs have.
    """
    models: list[Network | ClassicalModel] = []
    descriptions: list[AnyDescription] = []
    for artifact in artifacts:
        if is_classical(artifact):
            models.append(load_classical(artifact, WEIGHTS[rule]))
            descriptions.append(read_json(artifact.location, "model.json", ClassicalDescription))
        else:
            description, network = load_model(artifact, WEIGHTS[rule], device)
            models.append(network)
            descriptions.append(description)
    tasks = [f"{entry.task} with {num_outputs(entry)} outputs" for entry in descriptions]
    _require_equal(artifacts, tasks, "tasks")
    names = [corpus.info.outputs for corpus in corpora if corpus is not None]
    if names:
        available = [
            artifact
            for artifact, corpus in zip(artifacts, corpora, strict=True)
            if corpus is not None
        ]
        _require_equal(available, [", ".join(outputs) for outputs in names], "outputs")
    outputs = tuple(f"output_{number}" for number in range(num_outputs(descriptions[0])))
    return Ensemble(
        models=tuple(models),
        descriptions=tuple(descriptions),
        task=descriptions[0].task,
        outputs=names[0] if names else outputs,
        named=bool(names),
        categories=tuple(_read_categories(artifacts, corpora)),
        device=device,
    )


def num_outputs(description: AnyDescription) -> int:
    """Return the number of outputs of a network or a linear model."""
    if isinstance(description, ClassicalDescription):
        return description.classical.outputs
    return description.shape.outputs


def _read_categories(
    artifacts: Sequence[Artifact], corpora: Sequence[Corpus | None]
) -> Iterable[KnownCategories]:
    """Yield the known categories of each distinct training corpus."""
    visited = set()
    for artifact, corpus in zip(artifacts, corpora, strict=True):
        config = artifact.manifest.config
        origins = config.get("origins") if config.get("augmented", True) else ("source",)
        name = (None if corpus is None else corpus.artifact.manifest.digest, str(origins))
        if corpus is not None and name not in visited:
            visited.add(name)
            yield read_known_categories(corpus, origins)


def _require_equal(artifacts: Sequence[Artifact], values: Sequence[str], what: str) -> None:
    """Raise UsageError unless all models have equal ``values``."""
    for artifact, value in zip(artifacts, values, strict=True):
        if value != values[0]:
            raise UsageError(
                f"the models predict different {what}: {artifacts[0].key[:12]} predicts "
                f"{values[0][:200]}; {artifact.key[:12]} predicts {value[:200]}. Combine models of "
                "one dataset."
            )


def combine(task: str, logits: Sequence[Array]) -> Prediction:
    """Return the mean of the predictions of several models, given their logits ``[G, C]``.

    Probabilities are averaged, not logits. The mutual information of model and label is the entropy
    of the mean prediction minus the mean entropy of the models.
    """
    predictions = np.stack([probabilities(task, values) for values in logits])
    mean, several = predictions.mean(axis=0), len(logits) > 1
    entropy = information = None
    if task != "regression":
        entropy = _entropy(task, mean)
        if several:
            expected = np.mean([_entropy(task, values) for values in predictions], axis=0)
            information = np.maximum(entropy - expected, 0)
    return Prediction(
        mean=mean,
        std=predictions.std(axis=0, ddof=1) if several else None,
        entropy=entropy,
        mutual_information=information,
    )


def probabilities(task: str, logits: Array) -> Array:
    """Return logits ``[G, C]`` as float64 probabilities; values of regression stay as they are."""
    from scipy.special import expit, softmax

    values = logits.astype(np.float64)
    if task == "regression":
        return values
    result: Array = softmax(values, axis=1) if task == "classification" else expit(values)
    return result


def _entropy(task: str, mean: Array) -> Array:
    """Return the entropy ``[G]`` of probabilities ``[G, C]`` in bits."""
    from scipy.special import entr

    if task == "classification":
        bits: Array = entr(mean).sum(axis=1) / math.log(2)
    else:
        bits = (entr(mean) + entr(1 - mean)).mean(axis=1) / math.log(2)
    return bits


def prediction_columns(
    prediction: Prediction, task: str, outputs: Sequence[str], taken: Iterable[str] = ()
) -> dict[str, Array | list[str]]:
    """Return a prediction as columns of a table, whose names differ from those of ``taken``.

    ``p_<class or task>`` are probabilities; ``predicted_<target>`` are values of regression;
    ``predicted`` is the most probable class. Columns that end in ``_std`` have the standard
    deviation over models. Rows whose prediction is NaN have no class.
    """
    prefix = "predicted" if task == "regression" else "p"
    columns: list[tuple[str, Array | list[str]]] = []
    if task == "classification":
        chosen = prediction.mean.argmax(axis=1)
        chosen[np.isnan(prediction.mean[:, 0])] = len(outputs)
        names = (*outputs, "")
        columns.append(("predicted", [names[code] for code in chosen.tolist()]))
    for number, name in enumerate(outputs):
        columns.append((f"{prefix}_{name}", prediction.mean[:, number]))
        if prediction.std is not None:
            columns.append((f"{prefix}_{name}_std", prediction.std[:, number]))
    if prediction.entropy is not None:
        columns.append(("entropy", prediction.entropy))
    if prediction.mutual_information is not None:
        columns.append(("mutual_information", prediction.mutual_information))
    distinct = column_names([name for name, _ in columns], taken=taken)
    return {
        name: values.astype(np.float32) if isinstance(values, np.ndarray) else values
        for name, (_, values) in zip(distinct, columns, strict=True)
    }
