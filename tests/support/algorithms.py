"""Training algorithms outside of a training run."""

import torch

from gsx.stages.nn.backbones import init_backbone_weights
from gsx.stages.nn.training_loop import torch_stream
from gsx.stages.train.algorithms.base import Setup

CPU = torch.device("cpu")


def create_algorithm(
    algorithm, *, width=2, outputs=3, num_envs=2, seed=0, shape=None, nodes=None, **hyperparameters
):
    """Return an algorithm as a module, with weights from a fixed random stream."""
    setup = Setup(
        width=width, outputs=outputs, num_envs=num_envs, seed=seed, shape=shape, nodes=nodes
    )
    module = algorithm.create(setup, **hyperparameters)
    return init_backbone_weights(module, torch_stream(0, "learner"))


def number(value):
    """Return the value of a scalar tensor."""
    return value.detach().item()
