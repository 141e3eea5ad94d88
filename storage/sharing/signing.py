"""Signatures of manifests in minisign format, which the minisign program can verify as well.

A manifest contains the hash of every file, so a signature of its bytes covers the artifact. Keys
are Ed25519; the secret key is PKCS #8 PEM with an optional passphrase.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gsx.errors import ArtifactError, StoreError, UsageError
from gsx.limits import MANIFEST_BYTES
from gsx.storage.artifacts.atomic_files import atomic_write, translate_os_errors
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import MANIFEST, SIGNATURE, Manifest
from gsx.storage.artifacts.safe_files import open_user_file
from gsx.storage.artifacts.verify_files import read_manifest_bytes

_PUBLIC, _PREHASHED = b"Ed", b"ED"
_MAX_BYTES = 1 << 16
_PRIME = 2**255 - 19
_SMALL_ORDER = {
    y.to_bytes(32, "little")
    for y in (
        0,
        1,
        _PRIME - 1,
        _PRIME,
        _PRIME + 1,
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD83D3D706A17C7,
    )
}
"""Encodings of the points of order 1, 2, 4 and 8 (RFC 8032), without the sign bit."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A trusted public key and the key id that signatures contain."""

    key_id: bytes
    key: Ed25519PublicKey
    where: str
    """Path of the key file."""

    @property
    def name(self) -> str:
        """The key id in the notation of minisign."""
        return _shown_id(self.key_id)


def _shown_id(key_id: bytes) -> str:
    return key_id[::-1].hex().upper()


def generate_keys(path: Path, passphrase: bytes | None) -> tuple[Path, Path]:
    """Write a new secret key ``path.key`` and public key ``path.pub``; never overwrite files."""
    secret, public = path.with_name(f"{path.name}.key"), path.with_name(f"{path.name}.pub")
    for file in (secret, public):
        if file.exists() or file.is_symlink():
            raise StoreError(
                f"{file} already exists; keys are never overwritten. Choose another name."
            )
    key = Ed25519PrivateKey.generate()
    encryption = (
        serialization.BestAvailableEncryption(passphrase)
        if passphrase
        else serialization.NoEncryption()
    )
    data = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    key_id = secrets.token_bytes(8)
    with translate_os_errors(str(path.parent), consequence="No key was written."):
        path.parent.mkdir(parents=True, exist_ok=True)
        _create_and_fsync(secret, f"number: {key_id.hex()}\n".encode() + data, 0o600)
        try:
            _create_and_fsync(public, _public_text(key_id, key.public_key()).encode(), 0o644)
        except OSError:
            secret.unlink()  # a secret key without its public key is useless
            raise
    return secret, public


def _create_and_fsync(path: Path, data: bytes, mode: int) -> None:
    """Create a new file, completely or not at all, and fsync it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError:
        path.unlink()
        raise


def _public_text(key_id: bytes, key: Ed25519PublicKey) -> str:
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    text = base64.b64encode(_PUBLIC + key_id + raw).decode()
    return f"untrusted comment: minisign public key {_shown_id(key_id)}\n{text}\n"


def read_public_key(path: Path) -> PublicKey:
    """Read a public key written by ``gsx keygen`` or minisign."""
    lines = _read_lines(path, "public key")
    raw = _decode_base64(lines[1] if len(lines) > 1 else "", 42)
    if raw is None or raw[:2] != _PUBLIC:
        raise UsageError(
            f"{path} is not a public key. Pass a `.pub` file written by `gsx keygen` or minisign."
        )
    if raw[10:41] + bytes([raw[41] & 0x7F]) in _SMALL_ORDER:
        raise UsageError(f"{path} is a key of small order, which verifies forged signatures.")
    return PublicKey(raw[2:10], Ed25519PublicKey.from_public_bytes(raw[10:]), str(path))


def _decode_base64(text: str, size: int) -> bytes | None:
    """Return the decoded bytes, or None if ``text`` is not Base64 of ``size`` bytes."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return None
    return raw if len(raw) == size else None


def _read_lines(path: Path, what: str) -> list[str]:
    try:
        with open_user_file(path) as stream:
            return stream.read(_MAX_BYTES).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the {what} {path}: {error}") from error


def sign_manifest(location: Location, secret: Path, passphrase: bytes | None) -> str:
    """Sign the manifest of the local artifact at ``location`` and return the key id."""
    if location.local is None:
        raise UsageError(f"{location.url} is not on this machine. Sign it before you push it.")
    lines = _read_lines(secret, "secret key")
    try:
        key_id = bytes.fromhex(lines[0].removeprefix("number: "))
        pem = "\n".join(lines[1:]).encode()
        key = serialization.load_pem_private_key(pem, passphrase)
    except (ValueError, TypeError, IndexError, UnsupportedAlgorithm) as error:
        raise UsageError(
            f"cannot use the secret key {secret}: {error}\n"
            "If it has a passphrase, set GSX_PASSPHRASE."
        ) from error
    if not isinstance(key, Ed25519PrivateKey) or len(key_id) != 8:
        raise UsageError(
            f"{secret} is not a secret key. Pass a `.key` file written by `gsx keygen`."
        )
    data = location.read_bytes(MANIFEST, limit=MANIFEST_BYTES)
    signature = key.sign(_prehash(data))
    comment = f"file:{MANIFEST} hashed"
    global_signature = key.sign(signature + comment.encode())
    text = (
        "untrusted comment: signature of a gsx manifest\n"
        f"{base64.b64encode(_PREHASHED + key_id + signature).decode()}\n"
        f"trusted comment: {comment}\n{base64.b64encode(global_signature).decode()}\n"
    )
    with translate_os_errors(location.url, consequence="Nothing was signed."):
        atomic_write(location.local / SIGNATURE, text.encode())
    return _shown_id(key_id)


def check_signature(manifest: bytes, signature: bytes, key: PublicKey, where: str) -> None:
    """Raise ArtifactError unless ``signature`` is a valid signature of ``manifest`` by ``key``."""
    lines = [*signature.decode(errors="replace").splitlines(), "", "", "", ""]
    raw, global_signature = _decode_base64(lines[1], 74), _decode_base64(lines[3], 64)
    if raw is None or global_signature is None or raw[:2] not in (_PUBLIC, _PREHASHED):
        raise ArtifactError(f"{where}/{SIGNATURE} is not a minisign signature.")
    algorithm, key_id, manifest_signature = raw[:2], raw[2:10], raw[10:]
    comment = lines[2].removeprefix("trusted comment: ").encode()
    if key_id != key.key_id:
        raise ArtifactError(
            f"{where} is signed by the key {_shown_id(key_id)}, not by {key.name} of "
            f"{key.where}.\nAsk the sender for the right public key; do not use the artifact."
        )
    try:
        signed = _prehash(manifest) if algorithm == _PREHASHED else manifest
        key.key.verify(manifest_signature, signed)
        key.key.verify(global_signature, manifest_signature + comment)
    except InvalidSignature as error:
        raise ArtifactError(
            f"the signature of {where} is invalid: the manifest or the signature was changed after "
            f"{key.name} signed it.\nDo not use the artifact; contact its sender."
        ) from error


def read_signed_manifest(location: Location, key: PublicKey) -> Manifest:
    """Return the manifest at ``location``; raise ArtifactError unless ``key`` signed its bytes."""
    data, manifest = read_manifest_bytes(location)
    check_signature(data, read_signature(location), key, location.url)
    return manifest


def read_signature(location: Location) -> bytes:
    """Return the signature file of an artifact; raise ArtifactError if it is missing."""
    try:
        return location.read_bytes(SIGNATURE, limit=_MAX_BYTES)
    except FileNotFoundError as error:
        raise ArtifactError(
            f"{location.url} is not signed: it has no {SIGNATURE}.\n"
            "Ask its sender to sign it (`gsx sign`), or omit the key."
        ) from error


def _prehash(data: bytes) -> bytes:
    return hashlib.blake2b(data).digest()
