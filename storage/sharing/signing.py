"""Signatures over manifests, in the format of minisign, so that its own program checks them too.

A manifest names the hash of every file, so a signature over its bytes covers the artifact. Keys are
Ed25519; the secret key is PKCS #8 PEM, with a passphrase or without.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gsx.errors import ArtifactError, StoreError, UsageError
from gsx.storage.artifacts.atomic_files import explained, write_atomically
from gsx.storage.artifacts.location import Place
from gsx.storage.artifacts.manifest import MANIFEST, MAX_MANIFEST_BYTES, SIGNATURE

_PUBLIC, _PREHASHED = b"Ed", b"ED"
_MOST = 1 << 16


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that is trusted, and the number by which signatures name it."""

    number: bytes
    key: Ed25519PublicKey
    where: str

    @property
    def name(self) -> str:
        """The number as minisign shows it."""
        return self.number[::-1].hex().upper()


def make_keys(path: Path, passphrase: bytes | None) -> tuple[Path, Path]:
    """Write a new secret key and its public key beside ``path``; existing files are refused."""
    secret, public = path.with_name(f"{path.name}.key"), path.with_name(f"{path.name}.pub")
    for file in (secret, public):
        if file.exists() or file.is_symlink():
            raise StoreError(f"{file} is there already; keys are never overwritten. Name another.")
    key = Ed25519PrivateKey.generate()
    hidden = (
        serialization.BestAvailableEncryption(passphrase)
        if passphrase
        else serialization.NoEncryption()
    )
    data = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)
    number = secrets.token_bytes(8)
    with explained(str(path.parent), lost="No key was written."):
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_new(secret, f"number: {number.hex()}\n".encode() + data, 0o600)
        try:
            _write_new(public, _public_text(number, key.public_key()).encode(), 0o644)
        except OSError:
            secret.unlink()  # half a pair is none
            raise
    return secret, public


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that is not there yet, whole or not at all."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError:
        path.unlink()
        raise


def _public_text(number: bytes, key: Ed25519PublicKey) -> str:
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    shown = number[::-1].hex().upper()
    text = base64.b64encode(_PUBLIC + number + raw).decode()
    return f"untrusted comment: minisign public key {shown}\n{text}\n"


def read_public_key(path: Path) -> PublicKey:
    """Read a public key, as ``gsx keygen`` or minisign wrote it."""
    lines = _lines(path, "public key")
    raw = _decoded(lines[1] if len(lines) > 1 else "", 42)
    if raw is None or raw[:2] != _PUBLIC:
        raise UsageError(f"{path} is not a public key as `gsx keygen` writes it.")
    return PublicKey(raw[2:10], Ed25519PublicKey.from_public_bytes(raw[10:]), str(path))


def _decoded(text: str, size: int) -> bytes | None:
    """Return so many bytes that a line of Base64 holds, or None where it does not."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return None
    return raw if len(raw) == size else None


def _lines(path: Path, what: str) -> list[str]:
    try:
        with path.open("rb") as stream:
            return stream.read(_MOST).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the {what} {path}: {error}") from error


def sign(place: Place, secret: Path, passphrase: bytes | None) -> str:
    """Sign the manifest of the local artifact at ``place`` and return the number of the key."""
    if place.local is None:
        raise UsageError(f"{place.url} is not on this machine; sign it before it is pushed.")
    lines = _lines(secret, "secret key")
    try:
        number = bytes.fromhex(lines[0].removeprefix("number: "))
        pem = "\n".join(lines[1:]).encode()
        key = serialization.load_pem_private_key(pem, passphrase)
    except (ValueError, TypeError, IndexError) as error:
        raise UsageError(
            f"cannot use the secret key {secret}: {error}\n"
            "If it has a passphrase, put it into GSX_PASSPHRASE."
        ) from error
    if not isinstance(key, Ed25519PrivateKey) or len(number) != 8:
        raise UsageError(f"{secret} is not a secret key as `gsx keygen` writes it.")
    data = place.read_bytes(MANIFEST, limit=MAX_MANIFEST_BYTES)
    signature = key.sign(_prehash(data))
    comment = f"file:{MANIFEST} hashed"
    both = key.sign(signature + comment.encode())
    text = (
        "untrusted comment: signature of a gsx manifest\n"
        f"{base64.b64encode(_PREHASHED + number + signature).decode()}\n"
        f"trusted comment: {comment}\n{base64.b64encode(both).decode()}\n"
    )
    with explained(place.url, lost="Nothing was signed."):
        write_atomically(place.local / SIGNATURE, text.encode())
    return number[::-1].hex().upper()


def check_signature(manifest: bytes, signature: bytes, key: PublicKey, where: str) -> None:
    """Refuse a manifest that ``key`` did not sign."""
    lines = [*signature.decode(errors="replace").splitlines(), "", "", "", ""]
    raw, both = _decoded(lines[1], 74), _decoded(lines[3], 64)
    if raw is None or both is None or raw[:2] not in (_PUBLIC, _PREHASHED):
        raise ArtifactError(f"{where}/{SIGNATURE} is not a signature of minisign or gsx.")
    kind, number, found = raw[:2], raw[2:10], raw[10:]
    comment = lines[2].removeprefix("trusted comment: ").encode()
    if number != key.number:
        raise ArtifactError(
            f"{where} was signed by the key {number[::-1].hex().upper()}, not by {key.name} of "
            f"{key.where}.\nAsk the sender for the right public key; do not use the artifact."
        )
    try:
        key.key.verify(found, _prehash(manifest) if kind == _PREHASHED else manifest)
        key.key.verify(both, found + comment)
    except InvalidSignature as error:
        raise ArtifactError(
            f"the signature of {where} is wrong: manifest or signature were changed after "
            f"{key.name} signed.\nDo not use the artifact; ask its sender."
        ) from error


def require_signature(place: Place, key: PublicKey) -> None:
    """Refuse the artifact at ``place`` unless ``key`` signed its manifest."""
    manifest = place.read_bytes(MANIFEST, limit=MAX_MANIFEST_BYTES)
    check_signature(manifest, read_signature(place), key, place.url)


def read_signature(place: Place) -> bytes:
    """Return the signature beside a manifest; ArtifactError where there is none."""
    try:
        return place.read_bytes(SIGNATURE, limit=_MOST)
    except FileNotFoundError as error:
        raise ArtifactError(
            f"{place.url} is not signed: it has no {SIGNATURE}.\n"
            "Ask its sender to sign it (`gsx sign`), or leave the key out."
        ) from error


def _prehash(data: bytes) -> bytes:
    return hashlib.blake2b(data).digest()
