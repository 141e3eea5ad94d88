"""The stage `recommend`: find out which named recipe helps on a corpus.

It reads the training and validation data of a corpus and writes an artifact with all evidence and
with `recommended.toml`. Nothing in it depends on test data, on the number of workers or on time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from gsx.pipeline.recommend.config import RecommendConfig as RecommendConfig
from gsx.pipeline.recommend.config import resolve
from gsx.stages.block_executor import BlockExecutor
from gsx.stages.stage import Progress, Stage
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.artifact_files import JsonFile, JsonFiles

if TYPE_CHECKING:
    from gsx.pipeline.recommend.evidence import Evidence


def json_files() -> JsonFiles:
    """Return the types of all JSON files of a recommendation."""
    from gsx.pipeline.recommend.evidence import FILE, Evidence

    return {FILE: JsonFile(Evidence)}


def run(
    config: RecommendConfig,
    inputs: Mapping[str, Artifact],
    draft: Draft,
    progress: Progress,
    executor: BlockExecutor,
) -> StageResult:
    """Compare all recipes and write the evidence."""
    from gsx.pipeline.recommend.evidence import FILE, TOML_FILE
    from gsx.pipeline.recommend.recommend import recommend
    from gsx.pipeline.recommend.recommended_toml import recommended_toml
    from gsx.pipeline.recommend.task_runner import TaskRunner
    from gsx.storage.artifacts.digest import readable_json
    from gsx.storage.artifacts.store import Store

    source = inputs["corpus"]
    scratch = Store.at(draft.scratch.absolute() / "store")
    runner = TaskRunner(draft, executor, progress)
    evidence = recommend(config, source, scratch, runner)
    draft.write_bytes(FILE, readable_json(evidence))
    draft.write_bytes(TOML_FILE, recommended_toml(evidence, source.manifest).encode())
    return StageResult(
        counts={"recipes": sum(recipe.left_out is None for recipe in evidence.recipes)},
        summary={"name": evidence.dataset, "recommendation": _summary(evidence)},
        timings=runner.seconds,
    )


def _summary(evidence: Evidence) -> dict[str, object]:
    """Return the part of the evidence that the manifest shows."""
    recipes = [
        {
            "name": recipe.name,
            "screen": msgspec.to_builtins(recipe.screen),
            "confirmed": msgspec.to_builtins(recipe.confirmed),
        }
        for recipe in evidence.recipes
        if recipe.left_out is None
    ]
    fields = ("choice", "reason", "decided_by", "metric", "validation", "threshold")
    return {**{name: getattr(evidence, name) for name in fields}, "recipes": recipes}


STAGE = Stage(
    module=__name__,
    name="recommend",
    version=2,
    kind="recommendation",
    config=RecommendConfig,
    json_files=json_files,
    inputs={"corpus": "prepare"},
    resolve=resolve,
    run_with_executor=run,
    seeds=lambda config: {"recommend": config.seed},
)
