"""The learner that a config names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from gsx.stages.nn.backbones import BackboneShape
from gsx.stages.nn.gin import initialize
from gsx.stages.nn.training_loop import torch_stream
from gsx.stages.train.algorithms.catalog import KINDS
from gsx.stages.train.algorithms.ciga import CIGA
from gsx.stages.train.algorithms.coral import Coral
from gsx.stages.train.algorithms.dann import DANN
from gsx.stages.train.algorithms.dir import DIR
from gsx.stages.train.algorithms.eerm import EERM
from gsx.stages.train.algorithms.erm import ERM
from gsx.stages.train.algorithms.flag import FLAG
from gsx.stages.train.algorithms.gil import GIL
from gsx.stages.train.algorithms.groupdro import GroupDRO
from gsx.stages.train.algorithms.irm import IRM
from gsx.stages.train.algorithms.lisa_mixup import LISA
from gsx.stages.train.algorithms.lisa_subgraph import LiSA
from gsx.stages.train.algorithms.mixup import Mixup
from gsx.stages.train.algorithms.srgnn import SRGNN
from gsx.stages.train.algorithms.vrex import VREx
from gsx.stages.train.instance_weights import resemblance
from gsx.stages.train.node_data import NodeLesson

if TYPE_CHECKING:
    from gsx.stages.train.config import TrainConfig
    from gsx.stages.train.trainer import Lesson


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What a learner is made for."""

    config: TrainConfig
    shape: BackboneShape
    lesson: Lesson | NodeLesson

    @property
    def penalty(self) -> float:
        """The penalty asked for, else the learner's own."""
        given = self.config.penalty
        return KINDS[self.config.learner].penalty if given is None else given

    def option(self, name: str) -> float:
        """Return an option as asked for, else the learner's own value."""
        given: float | None = getattr(self.config, name)
        return KINDS[self.config.learner].fills[name] if given is None else given


def _eerm(setting: Setting) -> EERM:
    config, lesson = setting.config, setting.lesson
    assert isinstance(lesson, NodeLesson)  # refused before
    return EERM(
        setting.penalty,
        nodes=lesson.graphs.links.nodes,
        contexts=config.contexts,
        edits=config.context_edits,
        steps=config.context_steps,
        rate=config.context_rate,
    )


def _srgnn(setting: Setting) -> SRGNN:
    assert isinstance(setting.lesson, NodeLesson)  # refused before
    return SRGNN(setting.penalty, resemblance(setting.lesson, setting.config.seed))


MAKERS: Mapping[str, Callable[[Setting], nn.Module]] = {
    "erm": lambda _: ERM(),
    "vrex": lambda setting: VREx(setting.penalty),
    "irm": lambda setting: IRM(setting.penalty),
    "groupdro": lambda setting: GroupDRO(setting.penalty, setting.lesson.num_envs),
    "coral": lambda setting: Coral(setting.penalty),
    "dann": lambda setting: DANN(setting.penalty, setting.lesson.num_envs, setting.shape.width),
    "flag": lambda setting: FLAG(setting.config.ascent_step, setting.config.ascents),
    "mixup": lambda setting: Mixup(setting.config.mix_alpha),
    "lisa": lambda setting: LISA(setting.config.mix_alpha),
    "eerm": _eerm,
    "srgnn": _srgnn,
    "dir": lambda setting: DIR(setting.penalty, setting.shape.width, setting.shape.outputs),
    "gil": lambda setting: GIL(setting.penalty, int(setting.option("inferred_envs"))),
    "ciga": lambda setting: CIGA(
        setting.penalty, setting.option("hinge"), setting.shape.width, setting.shape.outputs
    ),
    "lisa-subgraph": lambda setting: LiSA(
        setting.penalty,
        setting.option("kl_weight"),
        int(setting.option("generators")),
        setting.shape.width,
    ),
}
"""What makes every learner of ``KINDS``."""


def learner_of(setting: Setting, device: torch.device) -> nn.Module:
    """Return the learner a config names, its weights drawn."""
    config = setting.config
    made = MAKERS[config.learner](setting)
    return initialize(made, torch_stream(config.seed, "train", "learner")).to(device)
