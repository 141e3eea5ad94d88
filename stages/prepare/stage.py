"""The stage `prepare`: write a dataset corpus with labels, splits and environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from gsx.errors import StageError, UsageError, did_you_mean
from gsx.ragged import Array
from gsx.schema import CorpusInfo
from gsx.stages.block_executor import BlockExecutor
from gsx.stages.chem.limits import MAX_ATOMS
from gsx.stages.prepare.benchmarks import (
    citations,
    cmnist,
    dependency_text,
    hiv,
    tu,
    twitch,
    webkb,
)
from gsx.stages.prepare.dataset import DatasetFamily, DatasetMetadata, DatasetRequest
from gsx.stages.prepare.download.catalog import remote_files
from gsx.stages.prepare.molecule_dataset import reject_unreadable
from gsx.stages.prepare.splitting import SplitRuleKind
from gsx.stages.prepare.synthetic import cbas, fsmotif, motif, motif2, motif_lobo
from gsx.stages.prepare.targets import MetricOption, TaskOption
from gsx.stages.prepare.user import dataset as user_dataset
from gsx.stages.stage import Progress, Stage
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.artifacts.publish import StageResult
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus_files import CORPUS_FILES
from gsx.storage.corpora.corpus_writer import SHARD_GRAPHS, Format, Shard, plan_shards, write_corpus
from gsx.storage.corpora.split_warnings import (
    TEST_SPLITS,
    label_shift_warnings,
    small_task_warnings,
)
from gsx.table import GraphTable

FAMILIES: tuple[DatasetFamily, ...] = (
    motif.FAMILY,
    motif_lobo.FAMILY,
    motif2.FAMILY,
    fsmotif.FAMILY,
    hiv.FAMILY,
    tu.FAMILY,
    dependency_text.FAMILY,
    cmnist.FAMILY,
    cbas.FAMILY,
    webkb.FAMILY,
    twitch.FAMILY,
    citations.FAMILY,
    user_dataset.FAMILY,
)


class PrepareConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[prepare]``."""

    dataset: str
    """Name of the dataset; `gsx datasets` lists all names."""
    num_graphs: int | None = None
    """Total number of graphs; default: the published number."""
    seed: int = 0
    """Root seed of the random streams."""
    shard_graphs: int = SHARD_GRAPHS
    """Graphs per shard."""
    formats: tuple[Format, ...] = ("parquet",)
    """``parquet``, ``zarr`` or both."""
    raw: str | None = None
    """Directory of raw files; not part of the key."""
    environments: int | str | UnsetType = UNSET
    """Number of training environments, or the name of a grouping."""
    protocol: Literal["paper", "mid"] | UnsetType = UNSET
    """Whether sizes between training and test are dropped (``paper``) or used as ``ood_val``."""
    features: Literal["hashed", "minilm"] | UnsetType = UNSET
    """Word vectors: hashed, or from the MiniLM encoder."""
    file: str | UnsetType = UNSET
    """User data: table, zip file or directory. Its content is part of the key, its path is not."""
    name: str | UnsetType = UNSET
    """Name of a corpus of user data (default: the name of the file) or of changed Motif data."""
    smiles_column: str | UnsetType = UNSET
    """Column with SMILES."""
    targets: tuple[str, ...] | UnsetType = UNSET
    """Columns with targets."""
    task: TaskOption | UnsetType = UNSET
    """Task of the targets."""
    metric: MetricOption | UnsetType = UNSET
    """Evaluation metric."""
    domain: str | UnsetType = UNSET
    """Domain of a graph: ``size``, ``scaffold`` or ``column:NAME``; of a node also ``degree``."""
    rule: SplitRuleKind | UnsetType = UNSET
    """Rule that assigns splits."""
    direction: Literal["ascending", "descending"] | UnsetType = UNSET
    """Whether the lowest or the highest domains are used for training."""
    ratios: tuple[float, float, float] | UnsetType = UNSET
    """Shares of ``train``, ``ood_val``, and of each of ``id_val`` and ``id_test``."""
    divide_domains: bool | UnsetType = UNSET
    """Whether domains that are larger than a part of an OOD split are divided between splits."""
    min_test_per_class: int | UnsetType = UNSET
    """Smallest number of items of every class in ``id_test`` and ``ood_test``."""
    split_column: str | UnsetType = UNSET
    """Column with the split of every row; name of an OGB split or GOOD shift."""
    max_atoms: int | UnsetType = UNSET
    """Atoms of the largest molecule; larger ones are unreadable rows."""
    strict: bool | UnsetType = UNSET
    """Whether an unreadable row is an error; not part of the key."""
    edges: str | UnsetType = UNSET
    """Edge table, if ``file`` is a node table; the path is not part of the key."""
    id_column: str | UnsetType = UNSET
    """Column with node ids."""
    feature_columns: tuple[str, ...] | UnsetType = UNSET
    """Columns with node features; default: all columns without another role."""
    bases: tuple[str, ...] | UnsetType = UNSET
    """Motif: base graphs; if the base shifts, those of the training environments."""
    val_bases: tuple[str, ...] | UnsetType = UNSET
    """Motif: base graphs of ``ood_val``, if the base shifts."""
    test_bases: tuple[str, ...] | UnsetType = UNSET
    """Motif: base graphs of ``ood_test``, if the base shifts."""
    motifs: tuple[str, ...] | UnsetType = UNSET
    """Motif: the classes."""
    feature_names: bool | UnsetType = UNSET
    """Whether the corpus stores the names of the feature columns of a node table."""


OPTIONS = (
    "environments", "protocol", "features", "file", "name", "smiles_column", "targets", "task",
    "metric", "domain", "rule", "direction", "ratios", "split_column", "max_atoms",
    "strict", "divide_domains", "min_test_per_class",
    "edges", "id_column", "feature_columns", "feature_names", "bases", "val_bases", "test_bases",
    "motifs",
)  # fmt: skip
"""Options that only some datasets have. For other datasets they are not part of the key."""


def family_of(name: str) -> DatasetFamily:
    """Return the family of a dataset."""
    for family in FAMILIES:
        if name in family.names:
            return family
    raise UsageError(f"no dataset `{name}`. {did_you_mean(name, _names())}")


def _names() -> list[str]:
    return [name for family in FAMILIES for name in (*family.names, *family.aliases)]


def metadata_of(name: str) -> DatasetMetadata:
    """Return the metadata of a dataset, given its name or an alias."""
    aliases = {alias: real for family in FAMILIES for alias, real in family.aliases.items()}
    real = aliases.get(name, name)
    return family_of(real).metadata(real)


def resolve(config: PrepareConfig) -> PrepareConfig:
    """Fill in defaults; reject unknown datasets, invalid sizes and missing raw files."""
    aliases = {alias: name for family in FAMILIES for alias, name in family.aliases.items()}
    name = aliases.get(config.dataset, config.dataset)
    family = family_of(name)
    num_graphs = family.size(name, config.num_graphs)
    options = family.options(name, dataset_options(config))
    if family.listed and options.get("name") in _names():
        raise UsageError(
            f"{name}: the name `{options['name']}` is that of a dataset. Use another `name`, so "
            "that results of different data are not mixed."
        )
    if config.shard_graphs < 1:
        raise UsageError(f"shard_graphs must be at least 1 (found {config.shard_graphs})")
    if not config.formats or len(set(config.formats)) != len(config.formats):
        raise UsageError("formats must be `parquet`, `zarr` or both, each once")
    formats = tuple(sorted(config.formats))
    config = msgspec.structs.replace(
        config, dataset=name, num_graphs=num_graphs, formats=formats, **options
    )
    raw_files(config)
    return config


def dataset_options(config: PrepareConfig) -> dict[str, Any]:
    """Return the options of a config that only some datasets have and that are set."""
    values = {name: getattr(config, name) for name in OPTIONS}
    return {name: value for name, value in values.items() if value is not UNSET}


def raw_files(config: PrepareConfig) -> dict[str, Path]:
    """Return name → path of the raw files of a config; raise an error if one is missing."""
    files = {}
    family = family_of(config.dataset)
    for needed in family.metadata(config.dataset).raw:
        located = None if config.raw is None else needed.find(Path(config.raw))
        if located is None:
            problem = (
                "no raw data directory is set"
                if config.raw is None
                else f"{config.raw} does not contain it"
            )
            raise UsageError(
                f"{config.dataset} needs {' or '.join(needed.paths)}, and {problem}.\n"
                f"The file is {needed.what}. Put it under a directory DIR and pass `--raw DIR` "
                f"or set GSX_RAW_DATA.{_fetch_hint(config.dataset)}"
            )
        name, path = located
        files[name] = path
    try:
        return {**files, **family.extra_files(config.dataset, dataset_options(config))}
    except OSError as error:
        raise UsageError(
            f"{error.filename or config.file} cannot be read: {error.strerror or error}."
        ) from error


def _fetch_hint(name: str) -> str:
    """Return how to download the files of a dataset; empty if gsx cannot download them."""
    if remote_files(metadata_of(name)) is None:
        return ""
    return f"\n`gsx fetch {name} --raw DIR` downloads all files."


def run(
    config: PrepareConfig,
    inputs: Mapping[str, Artifact],
    draft: Draft,
    progress: Progress,
    executor: BlockExecutor,
) -> StageResult:
    """Write the corpus into ``draft``."""
    del inputs
    request = DatasetRequest(
        name=config.dataset,
        num_graphs=config.num_graphs,
        seed=config.seed,
        raw=raw_files(config),
        options=dataset_options(config),
        executor=executor,
        progress=progress,
    )
    try:
        dataset = family_of(config.dataset).open(request)
    except MemoryError as error:
        raise StageError(
            f"{config.dataset}: the raw files need more memory than this machine has. Use fewer or "
            "smaller graphs."
        ) from error
    shards = plan_shards(dataset.split_sizes, config.shard_graphs)
    total = sum(dataset.split_sizes.values())
    done = 0
    tests = _multitask_tests(dataset.info, shards)
    labels: dict[Shard, Array] = {}

    def build(shard: Shard) -> GraphTable:
        table = dataset.build(shard.split, shard.start, shard.stop)
        if shard in tests:
            labels[shard] = table.dense("graph", "y")
        return table

    def count(shard: Shard) -> None:
        nonlocal done
        done += shard.stop - shard.start
        progress(done, total)

    result = write_corpus(draft, dataset.info, shards, build, config.formats, count)
    for shard in tests:
        if shard not in labels:  # written by an interrupted run
            build(shard)
    tasks = {
        split: np.concatenate([y for shard, y in labels.items() if shard.split == split])
        for split in {shard.split for shard in tests}
    }
    return replace(
        result,
        dropped=dataset.dropped,
        warnings=(
            *result.warnings,
            *label_shift_warnings(
                dataset.info, result.summary.get("node_groups", result.summary["groups"])
            ),
            *small_task_warnings(dataset.info, tasks),
            *dataset.warnings,
        ),
        summary={**result.summary, **dataset.summary},
    )


def _multitask_tests(info: CorpusInfo, shards: Sequence[Shard]) -> tuple[Shard, ...]:
    """Return the shards of test splits whose labels are several tasks of graphs."""
    if info.task != "multitask" or info.level != "graph":
        return ()
    return tuple(shard for shard in shards if shard.split in TEST_SPLITS)


def accept(config: PrepareConfig, manifest: Manifest) -> None:
    """Reject a corpus with dropped rows if ``strict`` is set."""
    if config.strict is True and config.file is not UNSET:
        num_dropped = sum(dropped.count for dropped in manifest.dropped)
        count = sum(manifest.counts.values()) + num_dropped
        reject_unreadable(Path(config.file).name, manifest.dropped, count)


STAGE = Stage(
    module=__name__,
    name="prepare",
    version=1,
    kind="corpus",
    config=PrepareConfig,
    json_files=lambda: CORPUS_FILES,
    resolve=resolve,
    run_with_executor=run,
    seeds=lambda config: {"prepare": config.seed},
    raw_files=raw_files,
    check_reused=accept,
    local_options=("raw", "file", "strict", "edges"),
    added_options={
        "max_atoms": MAX_ATOMS,
        "divide_domains": False,
        "min_test_per_class": 0,
        "feature_names": False,
    },
)
