"""Signatures over manifests: who signed what is checked before anything is believed."""

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
    made = blob(theirs)
    said = gsx("sign", made.key, "--key", secret, "--store", theirs.location.url)
    assert said.out.startswith(f"signed by {read_public_key(public).name}\n")
    assert gsx("verify", made.location.url, "--signature", public).code == 0
    got = gsx("pull", made.location.url, "--trust", public, "--store", ours.location.url)
    assert got.code == 0, got.err
    found = ours.find("blob", made.key).location
    assert contents(found.local) == contents(made.location.local)
    assert SIGNATURE in contents(found.local)
    assert gsx("verify", made.key, "--signature", public, "--store", ours.location.url).code == 0


def test_an_artifact_that_is_not_signed_is_refused_where_a_key_is_named(ours, theirs, keys):
    made = blob(theirs)
    said = gsx("pull", made.location.url, "--trust", keys[1], "--store", ours.location.url)
    assert said.code == 3
    assert "is not signed: it has no manifest.json.minisig" in said.err
    said = gsx("verify", made.location.url, "--signature", keys[1])
    assert said.code == 3
    assert said.out.startswith(f"REFUSED  {made.location.url}")
    assert said.out.splitlines()[-1].strip().startswith("Ask its sender to sign it")
    assert list(ours.entries()) == []


def test_the_signature_of_another_key_is_refused(theirs, keys, tmp_path):
    made = blob(theirs)
    mallory, _ = generate_keys(tmp_path / "mallory", None)
    sign_manifest(made.location, mallory, None)
    said = gsx("verify", made.location.url, "--signature", keys[1])
    assert said.code == 3
    assert "was signed by the key" in said.out


def test_a_manifest_that_was_changed_after_signing_is_refused(theirs, keys):
    made = blob(theirs)
    sign_manifest(made.location, keys[0], None)
    data = (made.location.local / MANIFEST).read_bytes()
    signature = (made.location.local / SIGNATURE).read_bytes()
    key = read_public_key(keys[1])
    check_signature(data, signature, key, "here")
    with pytest.raises(ArtifactError, match="the signature of here is invalid"):
        check_signature(data + b" ", signature, key, "here")
    with pytest.raises(ArtifactError, match="the signature of here is invalid"):
        check_signature(data, signature.replace(b"file:", b"life:"), key, "here")
    with pytest.raises(ArtifactError, match="is not a signature"):
        check_signature(data, b"hello", key, "here")


def test_secret_keys_are_private_and_never_overwritten(keys, tmp_path):
    assert keys[0].stat().st_mode & 0o777 == 0o600
    said = gsx("keygen", tmp_path / "alice")
    assert said.code == 3
    assert "keys are never overwritten" in said.err


def test_a_passphrase_protects_the_secret_key(theirs, tmp_path, monkeypatch):
    made = blob(theirs)
    monkeypatch.setenv("GSX_PASSPHRASE", "correct horse")
    assert gsx("keygen", tmp_path / "bob").code == 0
    assert gsx("sign", made.location.url, "--key", tmp_path / "bob.key").code == 0
    monkeypatch.delenv("GSX_PASSPHRASE")
    said = gsx("sign", made.location.url, "--key", tmp_path / "bob.key")
    assert said.code == 2
    assert "If it has a passphrase, set GSX_PASSPHRASE." in said.err


@pytest.mark.parametrize("text", ["", "one line", "a\nnot base64!", "a\nQUJD\n"])
def test_what_is_no_key_is_refused(tmp_path, text):
    (tmp_path / "bad.pub").write_text(text)
    with pytest.raises(UsageError, match="is not a public key"):
        read_public_key(tmp_path / "bad.pub")


@pytest.mark.skipif(MINISIGN is None, reason="minisign is not installed")
def test_minisign_itself_checks_our_signatures(theirs, keys):
    import subprocess

    made = blob(theirs)
    sign_manifest(made.location, keys[0], None)
    found = subprocess.run(
        [MINISIGN, "-V", "-p", str(keys[1]), "-m", str(made.location.local / MANIFEST)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert "Signature and comment signature verified" in found.stdout
