"""FLAG (Kong et al. 2022): train on inputs with small adversarial perturbations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gsx.stages.train.algorithms.base import AT_LEAST_1, POSITIVE, Algorithm, Option

if TYPE_CHECKING:
    from torch import Tensor

    from gsx.stages.train.algorithms.training_step import TrainingStep


class FLAG(Algorithm):
    """Mean loss over steps of gradient ascent on noise that is added to the inputs.

    As published, noise starts uniform in ``[-ascent_step, ascent_step]`` and moves by the sign of
    its gradient; the gradients of all steps have equal weight. Noise is added to numeric features
    and to the embeddings of categorical ones. Labelled and unlabelled nodes have the same step
    size.
    """

    name = "flag"
    title = "FLAG"
    distinguishes_nodes = True

    ascent_step = Option(
        1e-3,
        bounds=POSITIVE,
        search=(1e-2, 1e-3, 5e-3, 1e-4),
        help="step size of the input perturbation",
    )
    ascents = Option(3, bounds=AT_LEAST_1, help="forward passes per batch")

    def loss(self, step: TrainingStep) -> Tensor:
        """Return the loss of a batch.

        Gradients of all passes but the last are already accumulated in the network's parameters.
        """
        noise, earlier_loss = self.initial_noise(step), 0.0
        for _ in range(self.ascents - 1):
            noise, loss = self.ascend(step, noise)
            earlier_loss += loss
        return perturbed_loss(step, noise) / self.ascents + earlier_loss

    def ascend(self, step: TrainingStep, noise: Tensor) -> tuple[Tensor, float]:
        """Return the noise after one ascent step, and the loss before it, over ``ascents``.

        Accumulates the gradients of that loss in the network's parameters.
        """
        noise = noise.detach().requires_grad_()
        loss = perturbed_loss(step, noise) / self.ascents
        loss.backward()  # type: ignore[no-untyped-call]
        assert noise.grad is not None
        return noise.detach() + self.ascent_step * noise.grad.sign(), float(loss.detach())

    def initial_noise(self, step: TrainingStep) -> Tensor:
        """Return uniform noise ``[R, F]`` in ``[-ascent_step, ascent_step]``."""
        import numpy as np
        import torch

        size = step.model.network.input_shape(step.batch)
        uniform = torch.from_numpy(step.stream("flag").random(size, dtype=np.float32))
        return self.ascent_step * (2 * uniform.to(step.model.device) - 1)


def perturbed_loss(step: TrainingStep, noise: Tensor) -> Tensor:
    """Return the mean loss of a batch with noise added to its inputs."""
    output = step.model(replace(step.batch, noise=noise))
    return step.mean(step.losses_of(output.logits))
