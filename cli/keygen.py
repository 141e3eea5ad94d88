"""`gsx keygen`: create a key pair for signing artifacts."""

from __future__ import annotations

from pathlib import Path

import click

from gsx.cli.options import json_option
from gsx.cli.output import echo, print_json
from gsx.cli.passphrase import read_passphrase


@click.command(short_help="Create a key pair for signing artifacts.")
@click.argument("name", type=click.Path(path_type=Path))
@json_option
def keygen(name: Path, *, as_json: bool) -> None:
    """Write NAME.key, the secret key, and NAME.pub, the public key for other people.

    The environment variable GSX_PASSPHRASE, if set, encrypts the secret key.
    """
    from gsx.storage.sharing.signing import generate_keys, read_public_key

    secret, public = generate_keys(name, read_passphrase())
    key_id = read_public_key(public).name
    if as_json:
        print_json({"secret": str(secret), "public": str(public), "key": key_id})
        return
    echo(f"secret key {secret}: do not share it", f"public key {public}: {key_id}")
