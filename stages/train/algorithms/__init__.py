"""Training algorithms. To add one, write its file and add its class to ``ALGORITHMS``."""

from __future__ import annotations

from gsx.errors import StageError
from gsx.stages.train.algorithms.base import Algorithm
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
from gsx.stages.train.algorithms.leci import LECI
from gsx.stages.train.algorithms.lisa_mixup import LISA
from gsx.stages.train.algorithms.lisa_subgraph import LiSA
from gsx.stages.train.algorithms.mixup import Mixup
from gsx.stages.train.algorithms.prune import PrunE
from gsx.stages.train.algorithms.srgnn import SRGNN
from gsx.stages.train.algorithms.vrex import VREx

ALGORITHMS: tuple[type[Algorithm], ...] = (
    ERM,
    VREx,
    IRM,
    GroupDRO,
    Coral,
    DANN,
    FLAG,
    Mixup,
    LISA,
    EERM,
    SRGNN,
    DIR,
    GIL,
    CIGA,
    LiSA,
    LECI,
    PrunE,
)
"""All algorithms, in the order in which help lists them."""

_BY_NAME = {algorithm.name: algorithm for algorithm in ALGORITHMS}


def algorithm_named(name: str) -> type[Algorithm]:
    """Return an algorithm by its name."""
    return _BY_NAME[name]


def check_applies(name: str, *, level: str, task: str, corpus: str) -> None:
    """Raise a ``StageError`` if an algorithm does not support the level or task of a corpus."""
    algorithm = algorithm_named(name)
    alternatives = ", ".join(
        f"`{other.name}`"
        for other in ALGORITHMS
        if level in other.levels and (other.regression or task != "regression")
    )
    if level not in algorithm.levels:
        raise StageError(
            f"{algorithm.title} needs {algorithm.levels[0]} labels, but {corpus} has {level} "
            f"labels. Use another algorithm: {alternatives}."
        )
    if task == "regression" and not algorithm.regression:
        raise StageError(
            f"{algorithm.title} needs classes, but {corpus} is a regression task. Use another "
            f"algorithm: {alternatives}."
        )
