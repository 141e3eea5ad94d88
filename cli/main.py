"""The command `gsx`. Heavy imports happen inside commands, so that help is instant."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from gsx import __version__
from gsx.cli import augment, care, compare, doctor, exchange, learn, look, make, relate, share
from gsx.cli import fetch as fetching
from gsx.cli import pretrain as pretraining
from gsx.cli import tune as tuning
from gsx.cli.output import plain_lines
from gsx.errors import GsxError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, prog_name="gsx")
def cli() -> None:
    """Materialize out-of-distribution graph datasets as versioned artifacts on disk."""


for _command in (
    fetching.fetch,
    make.prepare,
    make.describe,
    pretraining.pretrain,
    make.generate,
    augment.augment,
    learn.train,
    compare.evaluate,
    compare.tabulate,
    tuning.tune,
    share.export,
    share.report,
    make.run,
    look.datasets,
    look.ls,
    look.show,
    relate.lineage,
    relate.diff,
    exchange.push,
    exchange.pull,
    exchange.keygen,
    exchange.sign,
    care.verify,
    care.gc,
    doctor.doctor,
):
    cli.add_command(_command)


def main() -> None:
    """Run the command line; expected failures end in one clear message and their exit code."""
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ["RANK"] != "0":  # the first one speaks
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    try:
        code = cli(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.exceptions.Abort:
        click.echo("Stopped. Finished shards are kept; run the same command to go on.", err=True)
        code = 130
    except GsxError as error:
        where = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        click.echo(plain_lines(f"Error{where}: {error}"), err=True)
        code = error.exit_code
    except BrokenPipeError:
        code = 0
    sys.exit(code if isinstance(code, int) else 0)
