"""Losses and information for every kind of label: soft classes, tasks with gaps, values."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

EPSILON = 1e-6


def row_loss(logits: Tensor, y: Tensor, task: str) -> Tensor:
    """Return the loss of every row; what is missing (NaN) costs nothing.

    ``logits`` and ``y`` are ``[…, C]``.
    """
    known = ~torch.isnan(y)
    target = torch.nan_to_num(y)
    if task == "classification":
        return -(target * logits.log_softmax(dim=-1)).sum(dim=-1)
    if task == "regression":
        each = (logits - target) ** 2
    else:
        each = functional.binary_cross_entropy_with_logits(
            logits, target.expand_as(logits), reduction="none"
        )
    return (each * known).sum(dim=-1) / known.sum(dim=-1).clamp_min(1)


def prior_of(y: Tensor, task: str) -> Tensor:
    """Return what is known of a label before looking: class shares, rates or means, ``[C]``."""
    prior = torch.nanmean(y, dim=0)
    return prior if task == "regression" else prior.clamp(EPSILON, 1 - EPSILON)


def prior_logits(prior: Tensor, task: str) -> Tensor:
    """Return the logits ``[C]`` of someone who knows the prior alone."""
    if task == "regression":
        return prior
    return prior.log() if task == "classification" else prior.logit()


def information(logits: Tensor, prior: Tensor, task: str) -> Tensor:
    """Return how far each row's belief is from the prior, in nats; squared distance for values."""
    if task == "classification":
        belief = logits.softmax(dim=-1)
        return (belief * (belief.clamp_min(EPSILON).log() - prior.log())).sum(dim=-1)
    if task == "regression":
        return ((logits - prior) ** 2).sum(dim=-1)
    belief = logits.sigmoid().clamp(EPSILON, 1 - EPSILON)
    yes = belief * (belief.log() - prior.log())
    no = (1 - belief) * ((1 - belief).log() - (1 - prior).log())
    return (yes + no).sum(dim=-1)


def log_belief(logits: Tensor, task: str, target: Tensor) -> Tensor:
    """Return how well each row tells ``target`` ``[…, C]``: minus its loss."""
    return -row_loss(logits, target, task)


def decided(logits: Tensor, prior: Tensor, task: str) -> Tensor:
    """Return the label a row has decided for: a class, a yes or no per task, or the value.

    A task is a yes where belief in it has risen above its prior: where nearly all say no, hardly
    any belief passes one half, and all rows would be taken for the same.
    """
    if task == "classification":
        return functional.one_hot(logits.argmax(dim=-1), logits.shape[-1]).to(logits.dtype)
    if task == "regression":
        return logits
    return (logits > prior_logits(prior, task)).to(logits.dtype)


def beyond(logits: Tensor, prior: Tensor, task: str) -> Tensor:
    """Return logits of yes-or-no tasks as if yes and no had been equally likely before looking."""
    if task in ("classification", "regression"):
        return logits
    return logits - prior_logits(prior, task)
