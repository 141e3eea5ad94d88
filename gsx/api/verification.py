"""`gsx.verify`: check the files, graphs and signatures of artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsx.api.call import public
from gsx.api.display import Result, TableRows
from gsx.api.progress import notify
from gsx.api.store import Store
from gsx.errors import ArtifactError, UsageError

if TYPE_CHECKING:
    from gsx.api.options import StoreLike
    from gsx.storage.artifacts.location import Location
    from gsx.storage.artifacts.store import Store as ArtifactStore
    from gsx.storage.corpora.verify_corpus import VerificationReport


class Verification(Result):
    """What verification found; true if all artifacts are as their makers published them."""

    def __init__(self, reports: Sequence[VerificationReport]) -> None:
        self._reports = list(reports)

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    @property
    def problems(self) -> list[str]:
        """One text per problem, with the file."""
        return [
            f"{report.path}: {problem.path} {problem.what}"
            for report in self._reports
            for problem in report.problems
        ]

    def __bool__(self) -> bool:
        return self.ok

    def check(self) -> None:
        """Raise ArtifactError if there is any problem."""
        if not self.ok:
            raise ArtifactError("\n".join(self.problems))

    def to_dict(self) -> dict[str, Any]:
        """Return all reports as plain values."""
        import dataclasses

        return {"ok": self.ok, "artifacts": [dataclasses.asdict(row) for row in self._reports]}

    def _lines(self) -> tuple[list[str], list[str]]:
        return [], self.problems

    def _table(self) -> tuple[TableRows, Sequence[str]]:
        rows = [tuple(row.values()) for row in self._records()]
        return rows, ("STATE", "PATH", "FILES", "GRAPHS", "PROBLEMS")

    def _records(self) -> Sequence[Mapping[str, Any]]:
        from gsx.pipeline.commands.verify import report_state

        return [
            {
                "state": report_state(report),
                "path": report.path,
                "files": report.files,
                "graphs": report.graphs,
                "problems": len(report.problems),
            }
            for report in self._reports
        ]


def verify_locations(
    locations: Sequence[Location],
    store: ArtifactStore,
    signature: str | Path | None,
    *,
    quiet: bool,
) -> Verification:
    """Verify artifacts of a store or outside of it."""
    from gsx.pipeline.commands.verify import verify as verify_artifacts

    path = None if signature is None else Path(signature)
    note = (lambda _: None) if quiet else notify
    return Verification(verify_artifacts(locations, store, note, signature=path))


@public()
def verify(
    *artifacts: object,
    signature: str | Path | None = None,
    store: StoreLike | None = None,
    quiet: bool = False,
) -> Verification:
    """Verify artifacts: hash every file, and read every graph, description and array.

    Parameters
    ----------
    artifacts
        Corpora, models, or the keys, tags, paths or URLs of artifacts. `Store.verify()` verifies
        all of a store.
    signature
        File of a public key that must have signed them.

    Examples
    --------
    >>> if not gsx.verify("received"):
    ...     raise SystemExit("damaged")
    >>> gsx.verify(corpus).check()          # raises gsx.errors.ArtifactError
    """
    if not artifacts:
        raise UsageError(
            "gsx.verify: no artifacts given. Name artifacts, or use `gsx.Store().verify()`."
        )
    return Store(store).verify(*artifacts, signature=signature, quiet=quiet)
