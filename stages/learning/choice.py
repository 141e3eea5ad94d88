"""The learner that a config names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from gsx.stages.learners.ciga import CIGA
from gsx.stages.learners.coral import Coral
from gsx.stages.learners.dann import DANN
from gsx.stages.learners.dir import DIR
from gsx.stages.learners.eerm import EERM
from gsx.stages.learners.erm import ERM
from gsx.stages.learners.flag import FLAG
from gsx.stages.learners.gil import GIL
from gsx.stages.learners.groupdro import GroupDRO
from gsx.stages.learners.irm import IRM
from gsx.stages.learners.kinds import KINDS
from gsx.stages.learners.lisa import LISA
from gsx.stages.learners.lisa_subgraph import LiSA
from gsx.stages.learners.mixup import Mixup
from gsx.stages.learners.srgnn import SRGNN
from gsx.stages.learners.vrex import VREx
from gsx.stages.learning.nodes import NodeLesson
from gsx.stages.learning.resemblance import resemblance
from gsx.stages.nets.backbones import BackboneShape
from gsx.stages.nets.descent import torch_stream
from gsx.stages.nets.gin import initialize

if TYPE_CHECKING:
    from gsx.stages.learning.config import TrainConfig
    from gsx.stages.learning.fit import Lesson


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
