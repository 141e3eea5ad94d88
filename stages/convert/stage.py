"""The ``convert`` stage: rewrite a corpus as Parquet or Zarr.

Content, order and shard boundaries do not change.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gsx.errors import UsageError
from gsx.stages.stage import Progress, Stage
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_files import CORPUS_FILES
from gsx.storage.corpora.corpus_writer import Format, Shard, write_corpus
from gsx.table import GraphTable


class ConvertConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[convert]``."""

    formats: tuple[Format, ...]
    """``parquet``, ``zarr`` or both."""


def resolve(config: ConvertConfig) -> ConvertConfig:
    """Check that formats are given, each once, and sort them."""
    if not config.formats or len(set(config.formats)) != len(config.formats):
        raise UsageError("formats must name `parquet`, `zarr` or both, each once")
    return msgspec.structs.replace(config, formats=tuple(sorted(config.formats)))


def run(
    config: ConvertConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> StageResult:
    """Write every shard of the corpus in the given formats."""
    corpus = Corpus(inputs["corpus"])
    shards = corpus.shards
    converted = 0

    def report_progress(shard: Shard) -> None:
        nonlocal converted
        converted += shard.stop - shard.start
        progress(converted, len(corpus))

    def read(shard: Shard) -> GraphTable:
        return corpus.read_shard(shards.index(shard))

    return write_corpus(draft, corpus.info, shards, read, config.formats, report_progress)


STAGE = Stage(
    module=__name__,
    name="convert",
    version=1,
    kind="corpus",
    config=ConvertConfig,
    json_files=lambda: CORPUS_FILES,
    inputs={"corpus": "prepare"},
    resolve=resolve,
    run=run,
)
