"""The command `gsx`. Commands import heavy packages inside functions, so that help is instant."""

from __future__ import annotations

import io
import os
import sys
import traceback
from pathlib import Path

import click

from gsx import __version__
from gsx.cli.augment import augment
from gsx.cli.catalog import catalog
from gsx.cli.compare import compare
from gsx.cli.datasets import datasets
from gsx.cli.demo import demo
from gsx.cli.describe import describe
from gsx.cli.diff import diff
from gsx.cli.doctor import doctor
from gsx.cli.evaluate import evaluate
from gsx.cli.export import export
from gsx.cli.fetch import fetch
from gsx.cli.gc import gc
from gsx.cli.generate import generate
from gsx.cli.keygen import keygen
from gsx.cli.lineage import lineage
from gsx.cli.ls import ls
from gsx.cli.output import echo, echo_error, printable_streams
from gsx.cli.predict import predict
from gsx.cli.prepare import prepare
from gsx.cli.pretrain import pretrain
from gsx.cli.pull import pull
from gsx.cli.push import push
from gsx.cli.recipes import recipes
from gsx.cli.recommend import recommend
from gsx.cli.report import report
from gsx.cli.run import run
from gsx.cli.show import show
from gsx.cli.sign import sign
from gsx.cli.table import table
from gsx.cli.tag import tag
from gsx.cli.train import train
from gsx.cli.tune import tune
from gsx.cli.unseal import unseal
from gsx.cli.verify import verify
from gsx.errors import ArtifactError, GsxError, describe_os_error


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, prog_name="gsx")
def cli() -> None:
    """Build out-of-distribution graph datasets as versioned artifacts on disk."""


for _command in (
    demo,
    fetch,
    prepare,
    describe,
    pretrain,
    recommend,
    generate,
    augment,
    train,
    evaluate,
    predict,
    table,
    compare,
    unseal,
    tune,
    export,
    report,
    catalog,
    run,
    datasets,
    recipes,
    ls,
    tag,
    show,
    lineage,
    diff,
    push,
    pull,
    keygen,
    sign,
    verify,
    gc,
    doctor,
):
    cli.add_command(_command)


def main() -> None:
    """Run the command line and end the process with its exit code."""
    with printable_streams():
        sys.exit(_run())


def _run() -> int:
    """Run the command line and return the exit code; print the traceback of a bug."""
    try:
        return _run_command()
    except Exception:
        traceback.print_exc()
        return 1


def _run_command() -> int:
    """Run the command line and return the exit code; expected errors print one message."""
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ["RANK"] != "0":  # only rank 0 prints
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    try:
        code = cli(standalone_mode=False)
    except click.ClickException as error:
        usage = io.StringIO()
        error.show(usage)
        head, colon, message = usage.getvalue().partition("Error: ")
        echo(*head.split("\n")[:-1], err=True)
        if colon:
            echo_error(f"Error: {message}")
        code = error.exit_code
    except click.exceptions.Abort:
        echo(
            "Stopped. Finished shards and epochs are kept; run the same command to resume.",
            err=True,
        )
        code = 130
    except GsxError as error:
        where = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        echo_error(f"Error{where}: {error}")
        code = error.exit_code
    except BrokenPipeError:
        code = 0
    except OSError as error:
        if error.errno is None:
            raise
        echo_error(f"Error: {describe_os_error(error)}")
        code = ArtifactError.exit_code
    return code if isinstance(code, int) else 0
