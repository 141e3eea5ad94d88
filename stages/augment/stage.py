"""The ``augment`` stage: baselines DropNode, DropEdge, MaskFeature and G-Mixup.

The result is a corpus of source graphs and augmented graphs, in the same format as a generated
corpus. So everything that reads generated corpora can compare with these baselines. Shards are
built in the same way as in ``generate``.
"""

from __future__ import annotations

from collections.abc import Mapping

from gsx.errors import UsageError
from gsx.stages.augment.config import AugmentConfig, resolve
from gsx.stages.sharded_build import ShardedBuild
from gsx.stages.stage import Stage
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus_files import CORPUS_FILES


def open_build(config: AugmentConfig, inputs: Mapping[str, Artifact]) -> ShardedBuild:
    """Read the source corpus and plan all shards of augmented graphs or replicas."""
    from gsx.stages.augment.node_replicas import ReplicaBuild
    from gsx.stages.augment.sharded import AugmentBuild
    from gsx.storage.corpora.corpus import Corpus

    info = Corpus(inputs["corpus"]).info
    if info.level == "node":
        return ReplicaBuild(config, inputs)
    if config.replicas is not None:
        raise UsageError(
            f"{info.name} has graph labels; replicas are for labelled nodes. Set the number of "
            "graphs with `--ratio` or `--count`."
        )
    return AugmentBuild(config, inputs)


STAGE = Stage(
    module=__name__,
    name="augment",
    version=1,
    kind="corpus",
    config=AugmentConfig,
    json_files=lambda: CORPUS_FILES,
    inputs={"corpus": "prepare"},
    resolve=resolve,
    open_sharded_build=open_build,
    seeds=lambda config: {"augment": config.seed},
)
