"""Signatures of manifests are verified before any file is read."""

import shutil

import pytest

from gsx.errors import ArtifactError, UsageError
from gsx.storage.artifacts.manifest import MANIFEST, SIGNATURE
from gsx.storage.artifacts.store import Store
from gsx.storage.sharing.signing import (
    check_signature,
    generate_keys,
    read_public_key,
    sign_manifest,
)
from tests.support.artifacts import blob, contents, gsx

MINISIGN = shutil.which("minisign")


@pytest.fixture
def ours(tmp_path):
    return Store.at(tmp_path / "ours")


@pytest.fixture
def theirs(tmp_path):
    return Store.at(tmp_path / "theirs")


@pytest.fixture
def keys(tmp_path):
    return generate_keys(tmp_path / "alice", None)


def test_a_signed_artifact_is_verified_pulled_and_keeps_its_signature(ours, theirs, keys, tmp_path):
    secret, public = keys
    artifact = blob(theirs)
    result = gsx("sign", artifact.key, "--key", secret, "--store", theirs.location.url)
    assert result.out.startswith(f"signed by {read_public_key(public).name}\n")
    assert gsx("verify", artifact.location.url, "--signature", public).code == 0
    got = gsx("pull", artifact.location.url, "--trust", public, "--store", ours.location.url)
    assert got.code == 0, got.err
    found = ours.find("blob", artifact.key).location
    assert contents(found.local) == contents(artifact.location.local)
    assert SIGNATURE in contents(found.local)
    assert (
        gsx("verify", artifact.key, "--signature", public, "--store", ours.location.url).code == 0
    )


def test_an_unsigned_artifact_is_refused_if_a_key_is_given(ours, theirs, keys):
    artifact = blob(theirs)
    result = gsx("pull", artifact.location.url, "--trust", keys[1], "--store", ours.location.url)
    assert result.code == 3
    assert "is not signed: it has no manifest.json.minisig" in result.err
    result = gsx("verify", artifact.location.url, "--signature", keys[1])
    assert result.code == 3
    assert result.out.startswith(f"REFUSED  {artifact.location.url}")
    assert result.out.splitlines()[-1].strip().startswith("Ask its sender to sign it")
    assert list(ours.entries()) == []


def test_the_signature_of_another_key_is_refused(theirs, keys, tmp_path):
    artifact = blob(theirs)
    mallory, _ = generate_keys(tmp_path / "mallory", None)
    sign_manifest(artifact.location, mallory, None)
    result = gsx("verify", artifact.location.url, "--signature", keys[1])
    assert result.code == 3
    assert "is signed by the key" in result.out


def test_a_manifest_that_was_changed_after_signing_is_refused(theirs, keys):
    artifact = blob(theirs)
    sign_manifest(artifact.location, keys[0], None)
    data = (artifact.location.local / MANIFEST).read_bytes()
    signature = (artifact.location.local / SIGNATURE).read_bytes()
    key = read_public_key(keys[1])
    check_signature(data, signature, key, "here")
    with pytest.raises(ArtifactError, match="the signature of here is invalid"):
        check_signature(data + b" ", signature, key, "here")
    with pytest.raises(ArtifactError, match="the signature of here is invalid"):
        check_signature(data, signature.replace(b"file:", b"life:"), key, "here")
    with pytest.raises(ArtifactError, match="is not a minisign signature"):
        check_signature(data, b"hello", key, "here")


def test_secret_keys_are_private_and_never_overwritten(keys, tmp_path):
    assert keys[0].stat().st_mode & 0o777 == 0o600
    result = gsx("keygen", tmp_path / "alice")
    assert result.code == 3
    assert "keys are never overwritten" in result.err


def test_a_passphrase_protects_the_secret_key(theirs, tmp_path, monkeypatch):
    artifact = blob(theirs)
    monkeypatch.setenv("GSX_PASSPHRASE", "correct horse")
    assert gsx("keygen", tmp_path / "bob").code == 0
    assert gsx("sign", artifact.location.url, "--key", tmp_path / "bob.key").code == 0
    monkeypatch.delenv("GSX_PASSPHRASE")
    result = gsx("sign", artifact.location.url, "--key", tmp_path / "bob.key")
    assert result.code == 2
    assert "If it has a passphrase, set GSX_PASSPHRASE." in result.err


@pytest.mark.parametrize("text", ["", "one line", "a\nnot base64!", "a\nQUJD\n"])
def test_an_invalid_key_file_is_refused(tmp_path, text):
    (tmp_path / "bad.pub").write_text(text)
    with pytest.raises(UsageError, match="is not a public key"):
        read_public_key(tmp_path / "bad.pub")


@pytest.mark.skipif(MINISIGN is None, reason="minisign is not installed")
def test_minisign_verifies_our_signatures(theirs, keys):
    import subprocess

    artifact = blob(theirs)
    sign_manifest(artifact.location, keys[0], None)
    actual = subprocess.run(
        [MINISIGN, "-V", "-p", str(keys[1]), "-m", str(artifact.location.local / MANIFEST)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert actual.returncode == 0, actual.stderr
    assert "Signature and comment signature verified" in actual.stdout
