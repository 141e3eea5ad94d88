"""`gsx verify`: check the files, graphs and signatures of artifacts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from gsx.errors import ArtifactError
from gsx.pipeline.commands.session import Notify
from gsx.pipeline.stage_order import json_files
from gsx.schema import CorpusInfo
from gsx.stages.chem.molecule_check import molecule_check
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import SIGNATURE, Manifest
from gsx.storage.artifacts.store import Store
from gsx.storage.artifacts.verify_files import Problem
from gsx.storage.corpora.verify_corpus import GraphCheck, VerificationReport, verify_artifact
from gsx.storage.sharing.signing import PublicKey, read_public_key, read_signed_manifest


def verify(
    locations: Sequence[Location], store: Store, notify: Notify, *, signature: Path | None = None
) -> list[VerificationReport]:
    """Hash every file and read every graph of artifacts; return one report per artifact.

    ``signature`` is the file of a public key that must have signed them.
    """
    key = None if signature is None else read_public_key(signature)

    def graph_check(info: CorpusInfo) -> GraphCheck | None:
        return _molecule_check(info, notify)

    reports = []
    for location in locations:
        manifest, signature_problems = _check_signature(location, key)
        report = verify_artifact(
            location,
            store=store,
            manifest=manifest,
            json_files=json_files,
            graph_check=graph_check,
        )
        problems = (*report.problems, *signature_problems)
        signer = None if key is None or signature_problems else key.name
        reports.append(dataclasses.replace(report, problems=problems, signer=signer))
    return reports


def report_state(report: VerificationReport) -> str:
    """Return ``ok``, ``REFUSED`` if only the signature is wrong, or ``DAMAGED``."""
    if not report.problems:
        return "ok"
    return "REFUSED" if all(p.path == SIGNATURE for p in report.problems) else "DAMAGED"


def _molecule_check(info: CorpusInfo, notify: Notify) -> GraphCheck | None:
    """Return the check of molecules; None for other graphs, and with a note without RDKit."""
    try:
        return molecule_check(info)
    except ImportError:
        notify(
            f"verify: SMILES of {info.name} are not compared with graphs, because RDKit is not "
            "installed. Install it with `pip install 'gsx[pipeline]'`."
        )
        return None


def _check_signature(
    location: Location, key: PublicKey | None
) -> tuple[Manifest | None, tuple[Problem, ...]]:
    """Return the manifest that ``key`` signed, or None and the problem of the signature."""
    if key is None:
        return None, ()
    try:
        return read_signed_manifest(location, key), ()
    except ArtifactError as error:
        return None, (Problem(SIGNATURE, str(error)),)
