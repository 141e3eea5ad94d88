"""`gsx sign`: sign an artifact."""

from __future__ import annotations

from pathlib import Path

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import echo, print_json
from gsx.cli.passphrase import read_passphrase


@click.command(short_help="Sign an artifact.")
@click.argument("artifact")
@click.option("--key", type=click.Path(path_type=Path), required=True, help="Your secret key.")
@store_option
@json_option
def sign(artifact: str, *, key: Path, store: str | None, as_json: bool) -> None:
    """Sign the manifest of ARTIFACT, which contains the hashes of all its files.

    `gsx verify --signature` and `gsx pull --trust` check the signature.
    """
    from gsx.storage.artifacts.manifest import SIGNATURE
    from gsx.storage.artifacts.store import Store
    from gsx.storage.sharing.signing import sign_manifest

    resolved = Store.at(store).resolve(artifact)
    key_id = sign_manifest(resolved.location, key, read_passphrase())
    if as_json:
        print_json({"key": resolved.key, "signed_by": key_id, "path": resolved.location.url})
        return
    echo(f"signed by {key_id}", f"          {resolved.location.url}/{SIGNATURE}")
