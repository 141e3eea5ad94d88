"""Write a corpus for people who do not have gsx: a directory that explains and verifies itself."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from gsx.errors import UsageError
from gsx.stages.exporting import portable
from gsx.stages.exporting.given import Given
from gsx.storage.bundle import Bundle, make_bundle
from gsx.storage.corpus import Corpus
from gsx.storage.manifest import RUN_RECORD, Manifest, Parent
from gsx.storage.publish import Identity, Outcome
from gsx.storage.store import Artifact

Layout = Literal["portable"]
VERSION = 1


def export(
    corpus: Corpus,
    lineage: Sequence[Manifest],
    target: Path,
    layout: Layout = "portable",
    *,
    creator: str = "",
    url: str = "",
) -> tuple[Artifact, bool]:
    """Write ``corpus`` to the directory ``target`` and say whether it was there before.

    ``lineage`` are the manifests of the corpus and of what it was made from.
    """
    given = Given(corpus=corpus, lineage=tuple(lineage), date=today(), creator=creator, url=url)
    source = corpus.artifact.manifest

    def fill(bundle: Bundle) -> Outcome:
        portable.fill(bundle, given)
        return Outcome(
            counts=source.counts,
            dropped=source.dropped,
            warnings=source.warnings,
            summary=source.summary,
        )

    return make_bundle(target, _identity(given, layout), fill, run=_run_record(corpus.artifact))


def today() -> str:
    """Return the day of the export, or that of ``SOURCE_DATE_EPOCH``, so that bytes can repeat."""
    moment = os.environ.get("SOURCE_DATE_EPOCH")
    if moment is None:
        return datetime.datetime.now(datetime.UTC).date().isoformat()
    if not moment.isdecimal():
        raise UsageError(f"SOURCE_DATE_EPOCH must be whole seconds since 1970; got `{moment}`")
    return datetime.datetime.fromtimestamp(int(moment), datetime.UTC).date().isoformat()


def _identity(given: Given, layout: Layout) -> Identity:
    source = given.corpus.artifact.manifest
    parent = Parent(role="corpus", kind="corpus", key=source.key, digest=source.digest)
    said = {name: value for name in ("creator", "url") if (value := getattr(given, name))}
    return Identity(
        kind="corpus" if layout == "portable" else "export",
        stage="export",
        stage_version=VERSION,
        config={"layout": layout, "date": given.date, **said},
        parents=(parent,),
        seeds=source.seeds,
    )


def _run_record(artifact: Artifact) -> bytes | None:
    """Return how the corpus was made: versions, platform, time; None where that is not known."""
    try:
        return artifact.place.read_bytes(RUN_RECORD, limit=1 << 20)
    except OSError:
        return None
