"""Losses, class priors and predictions for every task, with missing labels.

``classification`` has soft labels over classes, ``binary`` and ``multitask`` have one logit per
task, ``regression`` has real values. Missing labels are NaN.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

EPSILON = 1e-6


def row_loss(logits: Tensor, y: Tensor, task: str) -> Tensor:
    """Return the loss of every row; missing labels (NaN) contribute nothing.

    ``logits`` and ``y`` are ``[…, C]``. The loss is cross-entropy for classes, the mean binary
    cross-entropy over labelled tasks, or the mean squared error over labelled values.
    """
    labelled = ~torch.isnan(y)
    target = torch.nan_to_num(y)
    if task == "classification":
        return -(target * logits.log_softmax(dim=-1)).sum(dim=-1)
    if task == "regression":
        losses = (logits - target) ** 2
    else:
        losses = functional.binary_cross_entropy_with_logits(
            logits, target.expand_as(logits), reduction="none"
        )
    return (losses * labelled).sum(dim=-1) / labelled.sum(dim=-1).clamp_min(1)


def label_entropy(y: Tensor, task: str) -> Tensor:
    """Return the smallest loss that a prediction can have, for every row: the entropy of its label.

    The result ``[…]`` is 0 for hard labels and for values. ``row_loss`` minus the entropy is the KL
    divergence of the prediction from the label.
    """
    labelled = ~torch.isnan(y)
    target = torch.nan_to_num(y)
    if task == "regression":
        return torch.zeros_like(target).sum(dim=-1)
    entropy: Tensor = torch.special.entr(target)
    if task == "classification":
        return entropy.sum(dim=-1)
    entropy = (entropy + torch.special.entr(1 - target)) * labelled
    return entropy.sum(dim=-1) / labelled.sum(dim=-1).clamp_min(1)


def estimate_prior(y: Tensor, task: str) -> Tensor:
    """Return the prior of the labels ``[C]``: class shares, positive rates or mean values."""
    prior = torch.nanmean(y, dim=0)
    return prior if task == "regression" else prior.clamp(EPSILON, 1 - EPSILON)


def prior_logits(prior: Tensor, task: str) -> Tensor:
    """Return the logits ``[C]`` of the label prior (logit prior)."""
    if task == "regression":
        return prior
    return prior.log() if task == "classification" else prior.logit()


def kl_from_prior(logits: Tensor, prior: Tensor, task: str) -> Tensor:
    """Return the KL divergence of each row's prediction from the prior, in nats.

    Tasks are summed. For regression, return the squared distance from the prior.
    """
    if task == "classification":
        probability = logits.softmax(dim=-1)
        return (probability * (probability.clamp_min(EPSILON).log() - prior.log())).sum(dim=-1)
    if task == "regression":
        return ((logits - prior) ** 2).sum(dim=-1)
    probability = logits.sigmoid().clamp(EPSILON, 1 - EPSILON)
    positive = probability * (probability.log() - prior.log())
    negative = (1 - probability) * ((1 - probability).log() - (1 - prior).log())
    return (positive + negative).sum(dim=-1)


def predicted_label(logits: Tensor, prior: Tensor, task: str) -> Tensor:
    """Return the predicted label of every row: one-hot class, 0 or 1 per task, or the value.

    A task is positive where its logit exceeds the logit of its prior. A threshold of one half would
    make nearly all predictions of a rare task negative.
    """
    if task == "classification":
        return functional.one_hot(logits.argmax(dim=-1), logits.shape[-1]).to(logits.dtype)
    if task == "regression":
        return logits
    return (logits > prior_logits(prior, task)).to(logits.dtype)


def remove_prior(logits: Tensor, prior: Tensor, task: str) -> Tensor:
    """Return the logits of binary tasks minus the logits of their prior.

    The result corresponds to equally frequent positives and negatives. Logits of classes and values
    are returned unchanged.
    """
    if task in ("classification", "regression"):
        return logits
    return logits - prior_logits(prior, task)
