"""`gsx verify`: check the files and graphs of artifacts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import echo, notify, print_json
from gsx.plurals import counted


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
    """Verify ARTIFACTS: hash every file, and read every graph, description and array.

    SMILES of molecules must describe their graphs: atoms, bonds, hydrogens and charge.

    Exit code 3 if there is any problem.
    """
    from gsx.errors import UsageError
    from gsx.pipeline.commands.verify import report_state
    from gsx.pipeline.commands.verify import verify as verify_artifacts
    from gsx.storage.artifacts.manifest import SIGNATURE
    from gsx.storage.artifacts.store import Store

    artifact_store = Store.at(store)
    if everything == bool(artifacts):
        raise UsageError("no artifacts given. Name artifacts to verify, or use `--all`.")
    locations = (
        list(artifact_store.all_locations())
        if everything
        else [artifact_store.locate(name) for name in artifacts]
    )
    reports = verify_artifacts(locations, artifact_store, notify, signature=signature)
    ok = all(not report.problems for report in reports)
    if as_json:
        print_json({"ok": ok, "artifacts": [dataclasses.asdict(report) for report in reports]})
    else:
        for report in reports:
            counts = f"{counted(report.files, 'file')}, {counted(report.graphs, 'graph')}"
            signed = f", signed by {report.signer}" if report.signer else ""
            echo(f"{report_state(report):<8} {report.path}  {counts}{signed}")
            if report.caches:
                count = len(report.caches)
                echo(
                    f"         note: {count:,} {'file is' if count == 1 else 'files are'} no part "
                    f"of the artifact, such as {report.caches[0]}. Readers such as OGB store their "
                    "cache there. Delete it unless you read the export yourself."
                )
            for problem in report.problems:
                first, *others = problem.what.split("\n")
                # Messages of a wrong signature name the artifact, those of a bad file do not.
                names_itself = problem.path == SIGNATURE and not first.startswith("is ")
                where = "" if names_itself else f"{problem.path} "
                echo(f"         {where}{first}", *(f"         {line}" for line in others))
    if not ok:
        raise click.exceptions.Exit(3)
