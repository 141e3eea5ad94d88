"""`gsx verify`: check the files and graphs of artifacts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import print_json, printable, printable_lines

if TYPE_CHECKING:
    from gsx.storage.artifacts.location import Location
    from gsx.storage.corpora.verify_corpus import VerificationReport


@click.command(short_help="Verify all files and graphs of artifacts.")
@click.argument("artifacts", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Verify all artifacts of the store.")
@click.option(
    "--signature",
    type=click.Path(path_type=Path),
    metavar="KEY.pub",
    help="Also require a signature of this key.",
)
@store_option
@json_option
def verify(
    artifacts: tuple[str, ...],
    *,
    everything: bool,
    signature: Path | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Verify ARTIFACTS: the hash of every file, and every graph of a corpus.

    Exit code 3 if there is any problem.
    """
    from gsx.errors import UsageError
    from gsx.storage.artifacts.store import Store
    from gsx.storage.corpora.verify_corpus import verify_artifact

    artifact_store = Store.at(store)
    if everything == bool(artifacts):
        raise UsageError("no artifacts given. Name artifacts to verify, or use `--all`.")
    locations = (
        artifact_store.all_locations()
        if everything
        else [artifact_store.locate(name) for name in artifacts]
    )
    reports = [verify_artifact(location, store=artifact_store) for location in locations]
    if signature is not None:
        reports = _with_signature_problems(reports, locations, signature)
    ok = all(not report.problems for report in reports)
    if as_json:
        print_json({"ok": ok, "artifacts": [dataclasses.asdict(report) for report in reports]})
    else:
        for report in reports:
            counts = f"{report.files} files, {report.graphs:,} graphs"
            click.echo(f"{_state(report):<8} {report.path}  {counts}")
            for problem in report.problems:
                description = printable_lines(problem.what).replace("\n", "\n         ")
                click.echo(f"         {printable(problem.path)} {description}")
    if not ok:
        raise click.exceptions.Exit(3)


def _state(report: VerificationReport) -> str:
    """Return ``ok``, ``REFUSED`` if only the signature is wrong, or ``DAMAGED``."""
    from gsx.storage.artifacts.manifest import SIGNATURE

    if not report.problems:
        return "ok"
    return "REFUSED" if all(p.path == SIGNATURE for p in report.problems) else "DAMAGED"


def _with_signature_problems(
    reports: list[VerificationReport], locations: list[Location], public_key: Path
) -> list[VerificationReport]:
    """Return reports that also list missing or wrong signatures."""
    from gsx.errors import ArtifactError
    from gsx.storage.artifacts.manifest import SIGNATURE
    from gsx.storage.artifacts.verify_files import Problem
    from gsx.storage.sharing.signing import read_public_key, require_signature

    key = read_public_key(public_key)
    completed = []
    for report, location in zip(reports, locations, strict=True):
        problems = report.problems
        try:
            require_signature(location, key)
        except ArtifactError as error:
            problems = (*problems, Problem(SIGNATURE, str(error)))
        completed.append(dataclasses.replace(report, problems=problems))
    return completed
