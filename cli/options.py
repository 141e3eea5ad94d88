"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gsx.pipeline.distributed.build_shards import Hire

FORMATS = {"parquet": ("parquet",), "zarr": ("zarr",), "both": ("parquet", "zarr")}
"""What shards of a corpus in the store may look like, by the word that says so."""

store_option = click.option(
    "--store",
    metavar="DIR|URL",
    help="Where artifacts lie.  [default: GSX_STORE, else ./artifacts]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Say nothing but errors.")
force_option = click.option(
    "--force", is_flag=True, help="Make a new generation even if the artifact is there."
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print the plan and what is missing; run nothing."
)
device_option = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Where to compute; `auto` takes a GPU where there is one.",
)
out_option = click.option(
    "--out",
    type=click.Path(),
    metavar="DIR|URL",
    help="Also copy the artifact to this new or empty directory, or URL.",
)
portable_option = click.option(
    "--out",
    type=click.Path(),
    metavar="DIR",
    help="Also write it to this new or empty directory, for people without gsx.",
)
feature_domain_option = click.option(
    "--domain",
    "domains",
    multiple=True,
    metavar="[FEATURES=]LOW..HIGH[:STEP]",
    help="Domain of features, such as 0..1 or 0-2=0..255:1.  [default: what is known of the "
    "dataset, else what training shows]",
)
replicas_option = click.option(
    "--replicas", type=int, help="Copies of a graph of labelled nodes.  [default: 4]"
)
augmented_only_option = click.option(
    "--augmented-only", is_flag=True, help="Leave the source graphs out."
)
seed_option = click.option("--seed", type=int, help="Root of all random streams.  [default: 0]")
num_graphs_option = click.option(
    "--num-graphs", type=int, help="Graphs of a dataset that is prepared first."
)
shard_graphs_option = click.option(
    "--shard-graphs", type=int, help="Graphs per file.  [default: 25000]"
)
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    help="How graphs are stored.  [default: parquet]",
)
_CREW = (
    click.option("--workers", type=int, metavar="N", help="Work in N processes of this machine."),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Work on the Dask cluster at this address, such as tcp://host:8786.",
    ),
    click.option(
        "--memory-limit",
        default="auto",
        show_default=True,
        metavar="SIZE",
        help="Of each of the N processes, such as 4GB; one that outgrows it is ended.",
    ),
)
raw_option = click.option(
    "--raw",
    envvar="GSX_RAW_DATA",
    metavar="DIR",
    help="Folder of raw files that datasets are made from.  [default: GSX_RAW_DATA]",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which workers a person asked for; none means this process."""

    workers: int | None = None
    scheduler: str | None = None
    memory_limit: str = "auto"

    @property
    def elsewhere(self) -> bool:
        """Whether there are any."""
        return self.workers is not None or self.scheduler is not None

    def hire(self, say: Callable[[str], None]) -> Hire | None:
        """Return what opens a crew of these workers."""
        if not self.elsewhere:
            return None
        from gsx.pipeline.distributed.cluster import Workforce

        force = Workforce(
            workers=self.workers, scheduler=self.scheduler, memory_limit=self.memory_limit
        )
        return force.hire(say)


def crew_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that choose workers, as one argument ``asked``."""

    @functools.wraps(command)
    def packed(
        *args: object,
        workers: int | None,
        scheduler: str | None,
        memory_limit: str,
        **options: object,
    ) -> None:
        asked = Asked(workers=workers, scheduler=scheduler, memory_limit=memory_limit)
        command(*args, asked=asked, **options)

    for option in reversed(_CREW):
        packed = option(packed)
    return packed


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """How an artifact is to be made, whichever it is."""

    store: str | None
    force: bool
    dry_run: bool
    as_json: bool
    quiet: bool


def making_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of all that make artifacts, as one argument ``making``."""

    @functools.wraps(command)
    def packed(
        *args: object,
        store: str | None,
        force: bool,
        dry_run: bool,
        as_json: bool,
        quiet: bool,
        **options: object,
    ) -> None:
        making = Making(store=store, force=force, dry_run=dry_run, as_json=as_json, quiet=quiet)
        command(*args, making=making, **options)

    for option in (quiet_option, json_option, dry_run_option, force_option, store_option):
        packed = option(packed)
    return packed
