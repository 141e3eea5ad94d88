"""The ``generate`` stage: source graphs plus spliced graphs and graphs with extrapolated features.

All shards are planned before the first one is built. A shard consists of blocks, and a block is a
pure function of its random stream's name. So every worker builds the same graphs, in any order.
"""

from __future__ import annotations

from collections.abc import Mapping

from gsx.stages.featx_defaults import FEATX_DEFAULTS
from gsx.stages.generate.config import GenerateConfig, needs, resolve
from gsx.stages.sharded_build import ShardedBuild
from gsx.stages.stage import Stage
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus_files import CORPUS_FILES


def preflight(config: GenerateConfig, inputs: Mapping[str, Artifact]) -> None:
    """Check the inputs that exist already against the config, before models are trained."""
    if "corpus" not in inputs:
        return
    # Imported here because both load torch, which listing and planning stages does not need.
    from gsx.stages.generate.featx.build import preflight as check_featx
    from gsx.stages.generate.splice.load_inputs import preflight as check_splice

    if config.featx:
        check_featx(config, inputs)
    if config.enabled:
        check_splice(config, inputs)


def open_build(config: GenerateConfig, inputs: Mapping[str, Artifact]) -> ShardedBuild:
    """Read the inputs and plan all shards of generated graphs."""
    from gsx.stages.generate.combined import CombinedBuild
    from gsx.stages.generate.featx.sharded import open_featx_build
    from gsx.stages.generate.splice.sharded import SpliceBuild

    if config.options == "000":
        return open_featx_build(config, inputs)
    return CombinedBuild(config, inputs) if config.featx else SpliceBuild(config, inputs)


STAGE = Stage(
    module=__name__,
    name="generate",
    version=5,
    kind="corpus",
    config=GenerateConfig,
    json_files=lambda: CORPUS_FILES,
    inputs={"corpus": "prepare", "extractor": "extract", "bridge": "bridge", "mask": "mask"},
    required_roles=needs,
    resolve=resolve,
    preflight=preflight,
    open_sharded_build=open_build,
    seeds=lambda config: {"generate": config.seed},
    added_options={
        "labels": "average",
        "grow": 0.0,
        "chords": 0.0,
        "ports": "any",
        "featx": False,
        **FEATX_DEFAULTS,
        "replicas": 4,
    },
)
