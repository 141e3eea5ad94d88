"""`gsx pull`: copy an artifact into the local store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.transfer import ancestor_locations, transfer_all, with_lineage_option

if TYPE_CHECKING:
    from gsx.storage.artifacts.location import Location
    from gsx.storage.artifacts.store import Store


@click.command(short_help="Copy an artifact into the local store.")
@click.argument("artifact")
@click.option("--from", "origin", metavar="STORE", help="Store of ARTIFACT, if ARTIFACT is a key.")
@click.option(
    "--kind",
    default="corpus",
    show_default=True,
    help="Artifact kind, needed if ARTIFACT is a key in an HTTP store.",
)
@click.option(
    "--trust",
    type=click.Path(path_type=Path),
    metavar="KEY.pub",
    help="Reject an artifact that this key has not signed.",
)
@click.option(
    "--reuse",
    is_flag=True,
    help="Use it in place of a build with the same key, as if it had been built here.",
)
@click.option("--max-bytes", type=int, help="Reject an artifact that is larger.")
@with_lineage_option
@store_option
@json_option
def pull(
    artifact: str,
    *,
    origin: str | None,
    kind: str,
    trust: Path | None,
    reuse: bool,
    max_bytes: int | None,
    with_lineage: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Copy ARTIFACT into the local store: a directory or URL of an artifact, or a key.

    Every file is verified before the artifact becomes visible. The same command resumes an
    interrupted pull. Commands use a pulled artifact if you name it. They use it in place of a build
    only with --trust or --reuse.
    """
    from gsx.storage.artifacts.store import Store
    from gsx.storage.artifacts.verify_files import read_manifest
    from gsx.storage.sharing.push_pull import pull as pull_artifact
    from gsx.storage.sharing.signing import read_public_key

    target = Store.at(store)
    key = read_public_key(trust) if trust is not None else None
    source = Store.at(origin) if origin else _enclosing_store(artifact)
    location = _locate(artifact, source if origin else None, kind)
    ancestors = ancestor_locations(source, read_manifest(location)) if with_lineage else []
    transfer_all(
        [*ancestors, location],
        lambda one: pull_artifact(one, target, key=key, max_bytes=max_bytes, reuse=reuse),
        as_json=as_json,
    )


def _locate(artifact: str, store: Store | None, kind: str) -> Location:
    """Return the location of an artifact: a directory or URL, or a key in a store."""
    from gsx.errors import ArtifactError, UsageError
    from gsx.storage.artifacts.location import Location
    from gsx.storage.artifacts.tags import is_tag_name

    if store is None:
        if "://" not in artifact and not Path(artifact).is_dir():
            raise UsageError(
                f"`{artifact}` is neither a directory nor a URL. If it is a key, name its store: "
                f"`gsx pull {artifact} --from STORE`."
            )
        return Location.at(artifact)
    if not store.location.is_web or is_tag_name(artifact):
        try:
            return store.locate(artifact)
        except ArtifactError as error:
            first = str(error).split("\n")[0]
            raise ArtifactError(f"{first}\nCheck the key, and the store in `--from`.") from error
    if len(artifact) < 32:
        raise UsageError(
            "an HTTP store cannot be searched; give at least the first 32 digits of the key, or a "
            "tag."
        )
    return store.folder(kind, artifact)


def _enclosing_store(artifact: str) -> Store:
    """Return the store that would contain the artifact at this address: two directories up."""
    from gsx.storage.artifacts.store import Store

    return Store.at(artifact.rstrip("/").rsplit("/", 2)[0])
