"""Prepare a source corpus: graphs of a known dataset with labels, splits and environments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from gsx.errors import UsageError, nearest
from gsx.stages.prepare.benchmarks import citations, hiv, tu, twitch, webkb
from gsx.stages.prepare.benchmarks import cmnist as images
from gsx.stages.prepare.benchmarks import dependency_text as text
from gsx.stages.prepare.dataset import Card, Family, Order
from gsx.stages.prepare.download.catalog import remote_files
from gsx.stages.prepare.molecule_dataset import refuse_unreadable
from gsx.stages.prepare.splitting import RuleKind
from gsx.stages.prepare.synthetic import cbas, fsmotif, motif
from gsx.stages.prepare.targets import MetricAsked, TaskAsked
from gsx.stages.prepare.user import dataset as own
from gsx.stages.stage import Progress, Stage
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.manifest import Manifest
from gsx.storage.artifacts.publish import Outcome
from gsx.storage.artifacts.store import Artifact
from gsx.storage.corpora.corpus_writer import SHARD_GRAPHS, Format, Shard, plan_shards, write_corpus
from gsx.table import GraphTable

FAMILIES: tuple[Family, ...] = (
    motif.FAMILY,
    fsmotif.FAMILY,
    hiv.FAMILY,
    tu.FAMILY,
    text.FAMILY,
    images.FAMILY,
    cbas.FAMILY,
    webkb.FAMILY,
    twitch.FAMILY,
    citations.FAMILY,
    own.FAMILY,
)


class PrepareConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of ``[prepare]``."""

    dataset: str
    """Name of the dataset; ``gsx datasets`` lists them."""
    num_graphs: int | None = None
    """Graphs of all splits together; the published number when left out."""
    seed: int = 0
    """Root of the random streams that draw the graphs."""
    shard_graphs: int = SHARD_GRAPHS
    """Graphs per file."""
    formats: tuple[Format, ...] = ("parquet",)
    """``parquet``, ``zarr`` or both."""
    raw: str | None = None
    """Folder of raw files; not part of the key."""
    environments: int | str | UnsetType = UNSET
    """How many environments to cut the training pool into, or what an environment is."""
    protocol: Literal["paper", "mid"] | UnsetType = UNSET
    """Whether what lies between training and testing sizes is left out or is ``ood_val``."""
    features: Literal["hashed", "minilm"] | UnsetType = UNSET
    """How words become vectors."""
    file: str | UnsetType = UNSET
    """A user's own table, zip file or folder; not part of the key, but its bytes are."""
    name: str | UnsetType = UNSET
    """What to call a corpus of one's own; the name of the file when left out."""
    smiles_column: str | UnsetType = UNSET
    """Column of a table that holds SMILES."""
    targets: tuple[str, ...] | UnsetType = UNSET
    """Columns of a table to learn."""
    task: TaskAsked | UnsetType = UNSET
    """What kind of labels the targets are."""
    metric: MetricAsked | UnsetType = UNSET
    """How predictions are scored."""
    domain: str | UnsetType = UNSET
    """What graphs are sorted by: ``size``, ``scaffold`` or ``column:NAME``; nodes by ``degree``."""
    rule: RuleKind | UnsetType = UNSET
    """How graphs are split."""
    direction: Literal["ascending", "descending"] | UnsetType = UNSET
    """Whether the lowest or the highest domains are trained on."""
    ratios: tuple[float, float, float] | UnsetType = UNSET
    """Shares of all graphs: to train on, in ``ood_val``, and in each of ``id_val``, ``id_test``."""
    split_column: str | UnsetType = UNSET
    """Column of a table that names the split of every row; a split of OGB, a shift of GOOD."""
    strict: bool | UnsetType = UNSET
    """Whether a row that cannot be read is an error; not part of the key."""
    edges: str | UnsetType = UNSET
    """A user's table of edges, where ``file`` is one of nodes; not part of the key."""
    id_column: str | UnsetType = UNSET
    """Column of a table of nodes that names each node."""
    feature_columns: tuple[str, ...] | UnsetType = UNSET
    """Columns of a table of nodes that are features; all that have no other use if left out."""


OPTIONS = (
    "environments", "protocol", "features", "file", "name", "smiles_column", "targets", "task",
    "metric", "domain", "rule", "direction", "ratios", "split_column", "strict",
    "edges", "id_column", "feature_columns",
)  # fmt: skip
"""Options that only some datasets have. Where a dataset has not, they are in no key."""


def family_of(name: str) -> Family:
    """Return the family of a dataset."""
    for family in FAMILIES:
        if name in family.names:
            return family
    known = [known for family in FAMILIES for known in (*family.names, *family.aliases)]
    raise UsageError(f"no dataset `{name}`. {nearest(name, known)}")


def card_of(name: str) -> Card:
    """Return what is known of a dataset, by its name or another name of it."""
    aliases = {alias: real for family in FAMILIES for alias, real in family.aliases.items()}
    real = aliases.get(name, name)
    return family_of(real).card(real)


def resolve(config: PrepareConfig) -> PrepareConfig:
    """Fill in the published number of graphs; refuse a dataset or size that cannot be made."""
    aliases = {alias: name for family in FAMILIES for alias, name in family.aliases.items()}
    name = aliases.get(config.dataset, config.dataset)
    family = family_of(name)
    num_graphs = family.size(name, config.num_graphs)
    options = family.options(name, options_of(config))
    if config.shard_graphs < 1:
        raise UsageError(f"shard_graphs must be at least 1; got {config.shard_graphs}")
    if not config.formats or len(set(config.formats)) != len(config.formats):
        raise UsageError("formats must name `parquet`, `zarr` or both, each once")
    formats = tuple(sorted(config.formats))
    config = msgspec.structs.replace(
        config, dataset=name, num_graphs=num_graphs, formats=formats, **options
    )
    raw_files(config)
    return config


def options_of(config: PrepareConfig) -> dict[str, Any]:
    """Return the options of a config that only some datasets have, where they are set."""
    given = {name: getattr(config, name) for name in OPTIONS}
    return {name: value for name, value in given.items() if value is not UNSET}


def raw_files(config: PrepareConfig) -> dict[str, Path]:
    """Return the raw files that a config needs, by name; say what to get if one is not there."""
    files = {}
    family = family_of(config.dataset)
    for needed in family.card(config.dataset).raw:
        found = None if config.raw is None else needed.find(Path(config.raw))
        if found is None:
            where = "no folder of raw files is named" if config.raw is None else (
                f"{config.raw} does not hold it"
            )  # fmt: skip
            raise UsageError(
                f"{config.dataset} is made from {' or '.join(needed.paths)}, and {where}.\n"
                f"It is {needed.what}. Put it there under a folder of your choice and name that "
                f"folder with `--raw DIR` or GSX_RAW_DATA.{_fetching(config.dataset)}"
            )
        name, path = found
        files[name] = path
    return {**files, **family.more_files(config.dataset, options_of(config))}


def _fetching(name: str) -> str:
    """Say how to download the files of a dataset, where that can be done."""
    if remote_files(card_of(name)) is None:
        return ""
    return f"\n`gsx fetch {name} --raw DIR` downloads what it needs."


def run(
    config: PrepareConfig, inputs: Mapping[str, Artifact], draft: Draft, progress: Progress
) -> Outcome:
    """Write the corpus into ``draft``."""
    del inputs
    order = Order(
        name=config.dataset,
        num_graphs=config.num_graphs,
        seed=config.seed,
        raw=raw_files(config),
        options=options_of(config),
    )
    source = family_of(config.dataset).open(order)
    shards = plan_shards(source.split_sizes, config.shard_graphs)
    total = sum(source.split_sizes.values())
    done = 0

    def build(shard: Shard) -> GraphTable:
        return source.build(shard.split, shard.start, shard.stop)

    def count(shard: Shard) -> None:
        nonlocal done
        done += shard.stop - shard.start
        progress(done, total)

    outcome = write_corpus(draft, source.info, shards, build, config.formats, count)
    return replace(
        outcome,
        dropped=source.dropped,
        warnings=outcome.warnings + source.warnings,
        summary={**outcome.summary, **source.summary},
    )


def accept(config: PrepareConfig, manifest: Manifest) -> None:
    """Refuse a corpus that was made without ``strict`` where that is asked for now."""
    if config.strict is True and config.file is not UNSET:
        left_out = sum(each.count for each in manifest.dropped)
        count = sum(manifest.counts.values()) + left_out
        refuse_unreadable(Path(config.file).name, manifest.dropped, count)


STAGE = Stage(
    module=__name__,
    name="prepare",
    version=1,
    kind="corpus",
    config=PrepareConfig,
    resolve=resolve,
    run=run,
    seeds=lambda config: {"prepare": config.seed},
    raw_files=raw_files,
    accept=accept,
    places=("raw", "file", "strict", "edges"),
)
