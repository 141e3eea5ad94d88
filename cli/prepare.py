"""`gsx prepare`: write the source corpus of a dataset or of user data."""

from __future__ import annotations

from typing import Any

import click

from gsx.cli.options import (
    FORMATS,
    RunOptions,
    cluster_options,
    out_option,
    raw_option,
    run_options,
    seed_option_with_default,
    shard_graphs_option,
)
from gsx.cli.run_plan import open_session, print_result
from gsx.cli.user_data_options import user_data_options
from gsx.pipeline.distributed.cluster_options import ClusterOptions


@click.command(short_help="Write the source corpus of a dataset or of your own data.")
@click.argument("dataset", required=False)
@click.option(
    "--num-graphs", type=int, help="Graphs of all splits together.  [default: as published]"
)
@seed_option_with_default
@shard_graphs_option
@click.option(
    "--format",
    "file_format",
    type=click.Choice(list(FORMATS)),
    default="parquet",
    show_default=True,
    help="File format of the shards.",
)
@click.option(
    "--envs",
    metavar="K|WORD",
    help="Number of environments, or their kind; for your own data, `infer` clusters similar "
    "graphs.  [default: depends on the dataset]",
)
@click.option(
    "--protocol",
    type=click.Choice(["paper", "mid"]),
    help="dd-size, nci1-size: leave middle sizes out, or use them as ood_val.  [default: mid]",
)
@click.option(
    "--features",
    type=click.Choice(["hashed", "minilm"]),
    help="sst2-length, twitter-length: word vectors.  [default: hashed]",
)
@click.option(
    "--bases",
    metavar="LIST",
    help="motif-size, motif-base: base graphs (motif-base: of training), separated by commas.",
)
@click.option("--val-bases", metavar="LIST", help="motif-base: base graphs of ood_val.")
@click.option("--test-bases", metavar="LIST", help="motif-base: base graphs of ood_test.")
@click.option("--motifs", metavar="LIST", help="motif-size, motif-base: motifs, the classes.")
@user_data_options
@raw_option
@out_option
@cluster_options
@run_options
def prepare(
    dataset: str | None,
    out: str | None,
    cluster: ClusterOptions,
    run_options: RunOptions,
    **options: Any,  # noqa: ANN401
) -> None:
    """Write the source corpus of DATASET: graphs, targets, splits and environments.

    `gsx datasets` lists the datasets. To prepare your own data, leave DATASET out and use --smiles,
    --tu, --ogb, --pyg, --good, or --nodes and --edges. Molecules and images are read in parallel:
    by --workers or --scheduler, otherwise by one process per CPU core (GSX_WORKERS).
    """
    from gsx.pipeline.commands.prepare import prepare as prepare_corpus

    step = prepare_corpus(dataset, options, open_session(run_options, cluster), out)
    print_result(step, run_options)
