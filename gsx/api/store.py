"""Stores: artifacts in a directory or behind a URL."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from gsx.errors import StoreError, UsageError, describe_os_error, did_you_mean

if TYPE_CHECKING:
    from gsx.api.display import Rows
    from gsx.api.models import Model
    from gsx.api.recommendation import Recommendation
    from gsx.api.verification import Verification
    from gsx.storage.artifacts.store import Artifact
    from gsx.storage.artifacts.store import Store as ArtifactStore
    from gsx.storage.corpora.corpus import Corpus

_F = TypeVar("_F", bound=Callable[..., Any])
Kind = Literal["corpus", "model", "recommendation"]


def _translated(method: _F) -> _F:
    """Turn errors of the file system into gsx errors."""

    @functools.wraps(method)
    def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401
        try:
            return method(*args, **options)
        except OSError as error:
            if error.errno is None:
                raise
            raise StoreError(describe_os_error(error)) from error

    return call  # type: ignore[return-value]


class Store:
    """A store of artifacts: a directory, or a URL such as ``s3://bucket/prefix``.

    Parameters
    ----------
    url
        Directory or URL. Default: the environment variable ``GSX_STORE``, else ``./artifacts``.

    Examples
    --------
    >>> store = gsx.Store("artifacts")
    >>> store.ls(kind="corpus", last=1)
    >>> corpus = store.open("motif")            # by key, first digits of a key, or tag
    >>> store.push(corpus, "s3://bucket/prefix", with_lineage=True)
    """

    def __init__(self, url: str | Path | Store | None = None) -> None:
        from gsx.storage.artifacts.store import Store as ArtifactStore

        given: object = url
        if isinstance(given, Store):
            self._store: ArtifactStore = given._store
        elif isinstance(given, ArtifactStore):
            self._store = given
        elif given is None or isinstance(given, str | Path):
            self._store = ArtifactStore.at(given)
        else:
            raise UsageError(
                f"a store is a directory, a URL or a gsx.Store; got {type(given).__name__}"
            )

    def unwrap(self) -> ArtifactStore:
        """Return the store of the engine (``gsx.storage.artifacts.store``)."""
        return self._store

    @property
    def url(self) -> str:
        """Directory or URL."""
        return self._store.location.url

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Store) and other.url == self.url

    def __hash__(self) -> int:
        return hash(self.url)

    def _repr_html_(self) -> str:
        """Show the number of artifacts of every kind in a notebook."""
        from collections import Counter

        from gsx.api.display import html_view

        counts = Counter(kind for kind, _, _ in self._store.entries())
        rows = [(kind, count) for kind, count in sorted(counts.items())]
        return html_view([f"Store {self.url}"], rows, ("KIND", "ARTIFACTS"), [])

    @_translated
    def ls(
        self,
        *,
        kind: str | None = None,
        stage: str | None = None,
        name: str | None = None,
        sort: str = "kind",
        reverse: bool = False,
        last: int | None = None,
        **options: object,
    ) -> Rows:
        """List artifacts with date, name, tags, scores and options.

        Parameters
        ----------
        kind, stage, name
            Keep only artifacts of this kind or stage, or with this text in name or tag.
        sort, reverse, last
            Order (kind, date, name, score, size or key), and how many of the end to keep.
        options
            Keep only artifacts with these options, such as ``seed=1``.
        """
        import dataclasses

        from gsx.api.display import Rows
        from gsx.pipeline.listing import ORDERS, Filter, distinguishing_options, list_store

        if sort not in ORDERS:
            raise UsageError(f"gsx.Store.ls: `sort` has no value `{sort}`. "
                             f"{did_you_mean(str(sort), ORDERS)}")  # fmt: skip
        if last is not None and last < 1:
            raise UsageError(f"gsx.Store.ls: last must be at least 1; got {last}")
        conditions = tuple((option, str(value)) for option, value in options.items())
        condition = Filter(kind=kind, stage=stage, name=name, options=conditions)
        listing = list_store(self._store, condition, order=sort, descending=reverse)
        found = listing.artifacts[-last:] if last is not None else listing.artifacts
        table = [
            (
                row.kind,
                row.key[:12],
                row.date[:10] or None,
                row.name,
                ", ".join(row.tags),
                row.scores.get("ood_val"),
                row.scores.get("ood_test"),
                " ".join(f"{option}={value}" for option, value in own.items()),
            )
            for row, own in zip(found, distinguishing_options(found), strict=True)
        ]
        headers = ("KIND", "KEY", "DATE", "NAME", "TAGS", "OOD_VAL", "OOD_TEST", "OPTIONS")
        damaged = [f"DAMAGED  {item['what']}" for item in listing.damaged]
        return Rows([dataclasses.asdict(row) for row in found], table, headers, damaged)

    @overload
    def open(self, name: str | Path, kind: Literal["corpus"] = "corpus") -> Corpus: ...
    @overload
    def open(self, name: str | Path, kind: Literal["model"]) -> Model: ...
    @overload
    def open(self, name: str | Path, kind: Literal["recommendation"]) -> Recommendation: ...
    @_translated
    def open(self, name: str | Path, kind: Kind = "corpus") -> Corpus | Model | Recommendation:
        """Open a corpus, a model or a recommendation by key, first digits of a key, or tag.

        All files are verified first, unless this machine built or verified the artifact before.
        """
        from gsx.api.models import Model
        from gsx.api.recommendation import Recommendation
        from gsx.storage.corpora.corpus import Corpus

        kinds = ("corpus", "model", "recommendation")
        if kind not in kinds:
            raise UsageError(
                f"gsx.Store.open: `kind` has no value `{kind}`. {did_you_mean(str(kind), kinds)}"
            )
        artifact = self._store.resolve(str(name), kind=kind)
        if kind == "corpus":
            return Corpus(artifact, store=self._store)
        if kind == "model":
            return Model(artifact, self._store)
        return Recommendation(artifact, self._store)

    @_translated
    def tags(self) -> dict[str, str]:
        """Return the key of every tag."""
        from gsx.storage.artifacts.tags import read_tags

        return {name: tag.key for name, tag in read_tags(self._store.location).items()}

    @_translated
    def tag(self, artifact: object, name: str, *, force: bool = False) -> None:
        """Give an artifact a tag; ``force`` moves the tag of another artifact."""
        from gsx.pipeline.tagging import tag_artifact

        tag_artifact(self._store, self._artifact(artifact), name, replace=force)

    @_translated
    def untag(self, name: str) -> None:
        """Remove a tag; the artifact stays."""
        from gsx.storage.artifacts.tags import remove_tag

        remove_tag(self._store.location, name)

    @_translated
    def push(self, artifact: object, to: str | Path | Store, *, with_lineage: bool = False) -> Rows:
        """Copy an artifact into another store, with its ancestors if ``with_lineage``.

        The copy becomes visible when it is complete; the same call resumes an interrupted one.
        """
        from gsx.api.progress import notify
        from gsx.pipeline.commands.transfer import push

        target = Store(to).unwrap()
        resolved = self._artifact(artifact)
        copies = push(resolved, self._store, target, notify, with_lineage=with_lineage)
        return _transferred(list(copies))

    @_translated
    def pull(
        self,
        artifact: str | Path,
        origin: str | Path | Store | None = None,
        *,
        kind: str = "corpus",
        trust: str | Path | None = None,
        reuse: bool = False,
        max_bytes: int | None = None,
        with_lineage: bool = False,
    ) -> Rows:
        """Copy an artifact into this store: its directory or URL, or its key in ``origin``.

        Every file is verified before the artifact becomes visible. ``trust`` is the public key that
        must have signed it.
        """
        from gsx.api.progress import notify
        from gsx.pipeline.commands.transfer import pull

        copies = pull(
            str(artifact),
            self._store,
            notify,
            origin=None if origin is None else Store(origin).url,
            kind=kind,
            trust=None if trust is None else Path(trust),
            reuse=reuse,
            max_bytes=max_bytes,
            with_lineage=with_lineage,
        )
        return _transferred(list(copies))

    @_translated
    def verify(
        self, *artifacts: object, signature: str | Path | None = None, quiet: bool = False
    ) -> Verification:
        """Verify artifacts, or all of the store: every hash, graph, description and signature."""
        from gsx.api.verification import verify_locations

        if artifacts:
            locations = [self._locate(artifact) for artifact in artifacts]
        else:
            locations = self._store.all_locations()
        return verify_locations(locations, self._store, signature, quiet=quiet)

    @_translated
    def gc(self, *artifacts: str, delete: bool = False, with_descendants: bool = False) -> Rows:
        """List unused files of the store, or the given artifacts; delete them only on demand."""
        import dataclasses

        from gsx.api.display import Rows
        from gsx.pipeline.commands.gc import collect_garbage
        from gsx.text_table import format_bytes

        items = collect_garbage(
            self._store, artifacts, delete=delete, with_descendants=with_descendants
        )
        total = format_bytes(sum(item.bytes for item in items))
        outcome = "deleted" if delete else "can be deleted; pass delete=True to do so"
        table = [(item.what, format_bytes(item.bytes), item.path) for item in items]
        rows = [dataclasses.asdict(item) for item in items]
        remark = f"{len(items)} items, {total} {outcome}"
        return Rows(rows, table, ("WHAT", "SIZE", "PATH"), [remark])

    @_translated
    def lineage(self, artifact: object) -> Rows:
        """List the artifacts that an artifact was built from, back to the source corpora."""
        import dataclasses

        from gsx.api.display import Rows
        from gsx.storage.artifacts.lineage import walk_lineage

        ancestors = list(walk_lineage(self._store, self._artifact(artifact)))
        table = [
            ("   " * row.depth + row.kind, row.key[:12], row.role, row.stage, row.stored)
            for row in ancestors
        ]
        rows = [dataclasses.asdict(row) for row in ancestors]
        return Rows(rows, table, ("KIND", "KEY", "ROLE", "STAGE", "STORED"))

    def _artifact(self, artifact: object) -> Artifact:
        """Return the artifact of an object of the API, or of a name."""
        from gsx.storage.artifacts.store import Artifact

        if isinstance(artifact, Artifact):
            return artifact
        own = getattr(artifact, "artifact", None)
        if isinstance(own, Artifact):
            return own
        if isinstance(artifact, str | Path):
            return self._store.resolve(str(artifact))
        raise UsageError(
            "expected a Corpus, a Model, or the key, tag, path or URL of an artifact; got "
            f"{type(artifact).__name__}"
        )

    def _locate(self, artifact: object) -> Any:  # noqa: ANN401 - a Location
        if isinstance(artifact, str | Path):
            return self._store.locate(str(artifact))
        return self._artifact(artifact).location


def _transferred(copies: Sequence[Any]) -> Rows:
    """Return copied artifacts as a table."""
    from gsx.api.display import Rows
    from gsx.text_table import format_bytes

    rows = [
        {
            "kind": copied.artifact.manifest.kind,
            "key": copied.artifact.key,
            "path": copied.artifact.location.url,
            "digest": copied.artifact.manifest.digest,
            "reused": copied.reused,
            "bytes": copied.artifact.manifest.size,
            "seconds": round(copied.seconds, 3),
        }
        for copied in copies
    ]
    table = [
        (row["kind"], row["key"][:12], format_bytes(row["bytes"]), row["reused"], row["path"])
        for row in rows
    ]
    return Rows(rows, table, ("KIND", "KEY", "SIZE", "WAS THERE", "PATH"))
