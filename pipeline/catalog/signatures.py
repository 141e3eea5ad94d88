"""State of an artifact's signature: none, present, or checked against a public key."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gsx.errors import ArtifactError
from gsx.escape import one_line
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import SIGNATURE
from gsx.storage.artifacts.sidecars import MAX_SIGNATURE_BYTES

if TYPE_CHECKING:
    from gsx.storage.sharing.signing import PublicKey

State = Literal["unsigned", "unchecked", "valid", "invalid"]


@dataclass(frozen=True, slots=True)
class SignatureState:
    """State of a signature, with a sentence that explains it."""

    state: State
    text: str


def signature_state(
    location: Location, manifest: bytes, public_key: PublicKey | None
) -> SignatureState:
    """Return the state of the signature of the manifest with these bytes."""
    try:
        signature = location.read_bytes(SIGNATURE, limit=MAX_SIGNATURE_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return SignatureState("unsigned", "Not signed.")
    except (OSError, ArtifactError) as error:
        return SignatureState("invalid", one_line(f"The signature cannot be read: {error}"))
    key_id = _key_id(signature)
    if key_id is None:
        return SignatureState("invalid", f"{SIGNATURE} is not a minisign signature.")
    if public_key is None:
        return SignatureState(
            "unchecked", f"Signed by the key {key_id}. This catalog did not check the signature."
        )
    from gsx.storage.sharing.signing import check_signature  # needs the package cryptography

    try:
        check_signature(manifest, signature, public_key, location.url)
    except ArtifactError as error:
        return SignatureState("invalid", one_line(str(error)))
    return SignatureState(
        "valid", f"The key {key_id} signed this manifest; the signature is valid."
    )


def _key_id(signature: bytes) -> str | None:
    """Return the key id in a signature, in the notation of minisign; None if there is none."""
    lines = signature.decode(errors="replace").splitlines()
    try:
        raw = base64.b64decode(lines[1], validate=True)
    except (IndexError, ValueError, binascii.Error):
        return None
    return raw[2:10][::-1].hex().upper() if len(raw) == 74 else None
