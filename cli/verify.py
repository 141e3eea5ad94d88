"""`gsx verify`: check the files and graphs of artifacts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import echo, notify, print_json
from gsx.plurals import counted

if TYPE_CHECKING:
    from gsx.schema import CorpusInfo
    from gsx.storage.artifacts.location import Location
    from gsx.storage.artifacts.manifest import Manifest
    from gsx.storage.artifacts.verify_files import Problem
    from gsx.storage.corpora.verify_corpus import GraphCheck, VerificationReport
    from gsx.storage.sharing.signing import PublicKey


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
    from gsx.pipeline.stage_order import json_files
    from gsx.storage.artifacts.manifest import SIGNATURE
    from gsx.storage.artifacts.store import Store
    from gsx.storage.corpora.verify_corpus import verify_artifact
    from gsx.storage.sharing.signing import read_public_key

    artifact_store = Store.at(store)
    if everything == bool(artifacts):
        raise UsageError("no artifacts given. Name artifacts to verify, or use `--all`.")
    locations = (
        artifact_store.all_locations()
        if everything
        else [artifact_store.locate(name) for name in artifacts]
    )
    key = None if signature is None else read_public_key(signature)
    reports, signers = [], {}
    for location in locations:
        manifest, signature_problems = _check_signature(location, key)
        report = verify_artifact(
            location,
            store=artifact_store,
            manifest=manifest,
            json_files=json_files,
            graph_check=_molecule_check,
        )
        if key is not None and not signature_problems:
            signers[report.path] = key.name
        problems = (*report.problems, *signature_problems)
        reports.append(dataclasses.replace(report, problems=problems))
    ok = all(not report.problems for report in reports)
    if as_json:
        print_json({"ok": ok, "artifacts": [dataclasses.asdict(report) for report in reports]})
    else:
        for report in reports:
            counts = f"{counted(report.files, 'file')}, {counted(report.graphs, 'graph')}"
            signed = f", signed by {signers[report.path]}" if report.path in signers else ""
            echo(f"{_state(report):<8} {report.path}  {counts}{signed}")
            if report.caches:
                count = len(report.caches)
                echo(
                    f"         note: {count:,} {'file is' if count == 1 else 'files are'} no part "
                    f"of the artifact, such as {report.caches[0]}. Readers such as OGB store their "
                    "cache there. Delete it unless you read the export yourself."
                )
            for problem in report.problems:
                first, *others = problem.what.split("\n")
                # Messages about signatures name the file themselves.
                where = "" if problem.path == SIGNATURE else f"{problem.path} "
                echo(f"         {where}{first}", *(f"         {line}" for line in others))
    if not ok:
        raise click.exceptions.Exit(3)


def _molecule_check(info: CorpusInfo) -> GraphCheck | None:
    """Return the check of molecules; None for other graphs, and with a note without RDKit."""
    from gsx.stages.chem.molecule_check import molecule_check

    try:
        return molecule_check(info)
    except ImportError:
        notify(
            f"verify: SMILES of {info.name} are not compared with graphs, because RDKit is not "
            "installed. Install it with `pip install 'gsx[pipeline]'`."
        )
        return None


def _state(report: VerificationReport) -> str:
    """Return ``ok``, ``REFUSED`` if only the signature is wrong, or ``DAMAGED``."""
    from gsx.storage.artifacts.manifest import SIGNATURE

    if not report.problems:
        return "ok"
    return "REFUSED" if all(p.path == SIGNATURE for p in report.problems) else "DAMAGED"


def _check_signature(
    location: Location, key: PublicKey | None
) -> tuple[Manifest | None, tuple[Problem, ...]]:
    """Return the manifest that ``key`` signed, or None and the problem of the signature."""
    from gsx.errors import ArtifactError
    from gsx.storage.artifacts.manifest import SIGNATURE
    from gsx.storage.artifacts.verify_files import Problem
    from gsx.storage.sharing.signing import read_signed_manifest

    if key is None:
        return None, ()
    try:
        return read_signed_manifest(location, key), ()
    except ArtifactError as error:
        return None, (Problem(SIGNATURE, str(error)),)
