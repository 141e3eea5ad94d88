"""Commands that pass artifacts on: push, pull, keygen, sign."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import ordered, print_json, readable_bytes, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from gsx.storage.artifacts.location import Place
    from gsx.storage.artifacts.manifest import Manifest
    from gsx.storage.artifacts.store import Artifact, Store

lineage_option = click.option(
    "--with-lineage", is_flag=True, help="Also what it was made from, as far as it is there."
)


@click.command(short_help="Put an artifact into another store.")
@click.argument("artifact")
@click.argument("to", metavar="STORE")
@lineage_option
@store_option
@json_option
def push(artifact: str, to: str, *, with_lineage: bool, store: str | None, as_json: bool) -> None:
    """Put ARTIFACT into STORE, a directory or a URL such as s3://bucket/prefix.

    It is verified first and can be seen there only when it is whole. The same command goes on
    where an earlier one was stopped.
    """
    from gsx.storage.artifacts.store import Store
    from gsx.storage.sharing.push_pull import push as put

    place, target = Store.at(store), Store.at(to)
    found = place.resolve(artifact)
    chosen = [*(_parents(place, found.manifest) if with_lineage else ()), found.place]
    _each(chosen, lambda source: put(place.resolve(source.url), target), as_json=as_json)


@click.command(short_help="Bring an artifact into the store.")
@click.argument("artifact")
@click.option(
    "--from", "origin", metavar="STORE", help="Where ARTIFACT is a key: its store, also over HTTP."
)
@click.option("--kind", default="corpus", show_default=True, help="Kind of a key over HTTP.")
@click.option(
    "--trust", type=click.Path(path_type=Path), metavar="KEY.pub", help="Refuse what is not signed."
)
@click.option("--max-bytes", type=int, help="Refuse an artifact that is larger.")
@lineage_option
@store_option
@json_option
def pull(
    artifact: str,
    *,
    origin: str | None,
    kind: str,
    trust: Path | None,
    max_bytes: int | None,
    with_lineage: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Bring ARTIFACT into the local store: a directory or URL that holds one, or a key.

    Every file is hashed before the artifact can be seen. The same command goes on where an earlier
    one was stopped.
    """
    from gsx.storage.artifacts.store import Store
    from gsx.storage.artifacts.verify_files import read_manifest
    from gsx.storage.sharing.push_pull import pull as bring
    from gsx.storage.sharing.signing import read_public_key

    into = Store.at(store)
    key = read_public_key(trust) if trust is not None else None
    theirs = Store.at(origin) if origin else _store_around(artifact)
    source = _source(artifact, theirs if origin else None, kind)
    chosen = [*(_parents(theirs, read_manifest(source)) if with_lineage else ()), source]
    _each(chosen, lambda one: bring(one, into, key=key, most_bytes=max_bytes), as_json=as_json)


def _source(artifact: str, store: Store | None, kind: str) -> Place:
    from gsx.errors import UsageError
    from gsx.storage.artifacts.location import Place

    if store is None:
        if "://" not in artifact and not Path(artifact).is_dir():
            raise UsageError(
                f"`{artifact}` is no directory and no URL. For a key, name its store: "
                f"`gsx pull {artifact} --from STORE`."
            )
        return Place.at(artifact)
    if not store.place.url.startswith(("http://", "https://")):
        return store.locate(artifact)
    if len(artifact) < 32:
        raise UsageError(
            "a store behind plain HTTP cannot be searched; type at least 32 digits of the key."
        )
    return store.folder(kind, artifact)


def _store_around(artifact: str) -> Store:
    """Return the store an artifact lies in, if it lies in one: two folders up."""
    from gsx.storage.artifacts.store import Store

    return Store.at(artifact.rstrip("/").rsplit("/", 2)[0])


def _parents(store: Store, manifest: Manifest) -> list[Place]:
    """Return where the ancestors lie that a store holds, each after what it was made from."""
    from gsx.errors import ArtifactError
    from gsx.storage.artifacts.verify_files import read_manifest

    found: list[Place] = []
    for parent in manifest.parents:
        place = store.folder(parent.kind, parent.key)
        try:
            theirs = read_manifest(place)
        except ArtifactError:
            say(f"{parent.kind} {parent.key[:12]} is not in {store.place.url}; left out")
            continue
        if theirs.digest == parent.digest:
            found += [*_parents(store, theirs), place]
    return list({place.url: place for place in found}.values())


def _each(
    places: list[Place],
    move: Callable[[Place], tuple[Artifact, bool]],
    *,
    as_json: bool,
) -> None:
    rows = []
    for place in places:
        started = time.perf_counter()
        made, there = move(place)
        seconds = time.perf_counter() - started
        manifest = made.manifest
        rows.append(
            {
                "key": manifest.key,
                "kind": manifest.kind,
                "path": made.place.url,
                "digest": manifest.digest,
                "reused": there,
                "counts": ordered(manifest.counts),
                "bytes": manifest.size,
                "seconds": round(seconds, 3),
            }
        )
        if not as_json:
            how = (
                "already there" if there else f"{readable_bytes(manifest.size)} in {seconds:.1f} s"
            )
            click.echo(f"{manifest.kind:<9} {manifest.key[:12]}  {how}\n          {made.place.url}")
    if as_json:
        print_json({**rows[-1], "artifacts": rows})


@click.command(short_help="Make keys to sign artifacts with.")
@click.argument("name", type=click.Path(path_type=Path))
@json_option
def keygen(name: Path, *, as_json: bool) -> None:
    """Write NAME.key, which stays with you, and NAME.pub, which you give to others.

    With a passphrase in GSX_PASSPHRASE the secret key is encrypted.
    """
    from gsx.storage.sharing.signing import make_keys, read_public_key

    secret, public = make_keys(name, _passphrase())
    number = read_public_key(public).name
    if as_json:
        print_json({"secret": str(secret), "public": str(public), "key": number})
        return
    click.echo(f"secret key {secret}: keep it to yourself\npublic key {public}: {number}")


@click.command(short_help="Sign an artifact.")
@click.argument("artifact")
@click.option("--key", type=click.Path(path_type=Path), required=True, help="Your secret key.")
@store_option
@json_option
def sign(artifact: str, *, key: Path, store: str | None, as_json: bool) -> None:
    """Sign the manifest of ARTIFACT, and with it every file: for `gsx verify --signature`."""
    from gsx.storage.artifacts.manifest import SIGNATURE
    from gsx.storage.artifacts.store import Store
    from gsx.storage.sharing.signing import sign as put

    found = Store.at(store).resolve(artifact)
    number = put(found.place, key, _passphrase())
    if as_json:
        print_json({"key": found.key, "signed_by": number, "path": found.place.url})
        return
    click.echo(f"signed by {number}\n          {found.place.url}/{SIGNATURE}")


def _passphrase() -> bytes | None:
    word = os.environ.get("GSX_PASSPHRASE")
    return word.encode() if word else None
