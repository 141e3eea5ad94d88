"""Options that several commands share."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import click

from gsx.pipeline.commands.option_values import FORMATS as FORMATS
from gsx.pipeline.distributed.cluster_options import ClusterOptions


class OptionWithAliases(click.Option):
    """An option whose names after the first are accepted, but not listed in the help."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the help of the first name."""
        listed = copy.copy(self)
        listed.opts = self.opts[:1]
        return click.Option.get_help_record(listed, ctx)


class AliasedChoice(click.Choice[str]):
    """A choice that also accepts other names of its values, which the help does not list."""

    def __init__(self, values: Sequence[str], aliases: Mapping[str, str]) -> None:
        super().__init__(values)
        self._aliases = aliases

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value that ``value`` names."""
        return super().convert(self._aliases.get(value, value), param, ctx)


store_option = click.option(
    "--store",
    metavar="DIR|URL",
    help="Artifact store.  [default: GSX_STORE, else ./artifacts]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Print errors only.")
force_option = click.option(
    "--force", is_flag=True, help="Build a new generation even if the artifact exists."
)
tag_option = click.option(
    "--tag", metavar="NAME", help="Name for the result, to be used instead of its key."
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print the plan and which artifacts are missing; build nothing."
)
device_option = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Device to compute on; `auto` uses a GPU if there is one.",
)
out_option = click.option(
    "--out",
    type=click.Path(),
    metavar="DIR|URL",
    help="Also copy the artifact to this new or empty directory, or URL.",
)
portable_out_option = click.option(
    "--out",
    type=click.Path(),
    metavar="DIR",
    help="Also export it, in the portable layout, to this new or empty directory.",
)
feature_range_option = click.option(
    "--feature-range",
    "--domain",
    "feature_ranges",
    cls=OptionWithAliases,
    multiple=True,
    metavar="[FEATURES=]LOW..HIGH[:STEP]|+P%",
    help="Feature range, such as 0..1, 0-2=0..255:1, length=0..9, or +50% beyond both ends of the "
    "training range; repeatable (alias: --domain).  [default: known range of the dataset, else "
    "range of the training data]",
)
replicas_option = click.option(
    "--replicas", type=int, help="Node-level targets: replicas of the graph.  [default: 4]"
)
augmented_only_option = click.option(
    "--augmented-only", is_flag=True, help="Leave the source graphs out of the new corpus."
)
seed_option = click.option("--seed", type=int, help="Random seed.  [default: 0]")
seed_option_with_default = click.option(
    "--seed", type=int, default=0, show_default=True, help="Random seed."
)
num_graphs_option = click.option(
    "--num-graphs", type=int, help="Graphs of all splits together, if SOURCE is a dataset."
)
shard_graphs_option = click.option(
    "--shard-graphs", type=int, help="Graphs per shard.  [default: 25000]"
)
format_option = click.option(
    "--format",
    "file_format",
    type=click.Choice(list(FORMATS)),
    help="File format of the shards.  [default: parquet]",
)
pretraining_preset_option = click.option(
    "--preset",
    type=click.Choice(["quick", "default"]),
    default="default",
    show_default=True,
    help="Epochs of pretraining; `quick` trains half as long or less.",
)
raw_option = click.option(
    "--raw",
    envvar="GSX_RAW_DATA",
    metavar="DIR",
    help="Directory of raw data files.  [default: GSX_RAW_DATA]",
)
_CLUSTER_OPTIONS = (
    click.option("--workers", type=int, metavar="N", help="Run on N local worker processes."),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Run on the Dask cluster at this address, such as tcp://host:8786.",
    ),
    click.option(
        "--memory-limit",
        default="auto",
        show_default=True,
        metavar="SIZE",
        help="Memory limit per local worker, such as 4GB; a worker above it is killed.",
    ),
    click.option(
        "--dashboard",
        is_flag=True,
        help="Serve Dask's dashboard on a port of this machine, without a password.",
    ),
)


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that select workers; the command gets them as one argument ``cluster``."""

    @functools.wraps(command)
    def with_cluster(
        *args: object,
        workers: int | None,
        scheduler: str | None,
        memory_limit: str,
        dashboard: bool,
        **options: object,
    ) -> None:
        cluster = ClusterOptions(
            workers=workers, scheduler=scheduler, memory_limit=memory_limit, dashboard=dashboard
        )
        command(*args, cluster=cluster, **options)

    for option in reversed(_CLUSTER_OPTIONS):
        with_cluster = option(with_cluster)
    return with_cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of all commands that build artifacts."""

    store: str | None
    force: bool
    dry_run: bool
    as_json: bool
    quiet: bool
    tag: str | None = None
    """Tag of the last artifact."""


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that build artifacts, as one argument ``run_options``."""

    @functools.wraps(command)
    def with_run_options(
        *args: object,
        store: str | None,
        force: bool,
        dry_run: bool,
        as_json: bool,
        quiet: bool,
        tag: str | None,
        **options: object,
    ) -> None:
        packed = RunOptions(
            store=store, force=force, dry_run=dry_run, as_json=as_json, quiet=quiet, tag=tag
        )
        command(*args, run_options=packed, **options)

    options = (
        quiet_option, json_option, dry_run_option, force_option, tag_option, store_option
    )  # fmt: skip
    for option in options:
        with_run_options = option(with_run_options)
    return with_run_options
