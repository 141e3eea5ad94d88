"""DANN (Ganin et al. 2016): features from which the environment cannot be predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import NON_NEGATIVE, Algorithm, Option, Setup

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gsx.stages.train.algorithms.training_step import TrainingStep


class DANN(Algorithm):
    """Mean loss plus the loss of an environment classifier behind a gradient reversal layer."""

    name = "dann"
    title = "DANN"
    compares_environments = True

    penalty = Option(
        1.0,
        bounds=NON_NEGATIVE,
        nullable=True,
        search=(1.0, 0.1, 0.01, 0.001),
        help="weight of the environment classifier's loss",
    )
    environment_classifier: nn.Linear

    def build(self, setup: Setup) -> None:
        """Create the environment classifier."""
        from torch import nn

        self.environment_classifier = nn.Linear(setup.width, setup.num_envs)

    def loss(self, step: TrainingStep) -> Tensor:
        """Return the loss of a batch; the reversal grows from 0 to 1 as in the paper."""
        from torch.nn import functional

        from gsx.stages.train.gradient_reversal import reversal_strength, reverse_gradient

        strength = reversal_strength(step.progress)
        logits = self.environment_classifier(reverse_gradient(step.features, strength))
        penalty = functional.cross_entropy(logits, step.env)
        return step.mean(step.losses) + self.penalty * penalty
