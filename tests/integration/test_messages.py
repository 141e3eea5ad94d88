"""Messages that first users met: what is wrong, and what to do."""

import shutil

import pytest

from gsx.plurals import counted
from tests.support.artifacts import gsx, motif
from tests.support.raw_files import tu_path_graphs, write_zip

TABLE = "id,SMILES,active\n" + "".join(f"{n},{'C' * (n + 1)},{n % 2}\n" for n in range(60))


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text(TABLE)
    return ("--store", str(tmp_path / "store"))


@pytest.mark.parametrize("command", ["generate", "tune"])
def test_a_misspelt_dataset_with_options_of_datasets(store, command):
    result = gsx(command, "motif-sise", "--num-graphs", 100, *store)
    assert result.code == 2
    assert "no dataset and no corpus `motif-sise`. Did you mean `motif-size`?" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target", "active"), "Did you mean `SMILES`? Name it with `--smiles-column`."),
        (("--smiles-column", "SMILES", "--target", "activ"), "Did you mean `active`?"),
        (("--smiles-column", "SMILES", "--target", "active", "--domain", "column:idd"),
         "has no column `idd`; its header is `id,SMILES,active`. Did you mean `id`?"),
        (("--smiles-column", "SMILES", "--target", "active", "--ratios", "80/10/10"),
         "expected fractions with a sum of at most 1. Did you mean 0.8/0.1/0.1?"),
    ],
)  # fmt: skip
def test_misspelt_columns_are_wrong_usage(store, words, message):
    result = gsx("prepare", "--smiles", "mine.csv", *words, *store)
    assert result.code == 2, result.err
    assert message in result.err


def test_an_archive_is_not_a_table(store, tmp_path):
    file = write_zip(tmp_path / "P.zip", tu_path_graphs(range(2, 42)))
    result = gsx("prepare", "--smiles", file, "--target", "y", *store)
    assert "P.zip is a ZIP archive (or a spreadsheet), not a table of text." in result.err
    assert "a TU dataset needs `--tu`" in result.err


def test_verification_names_the_signer(store):
    assert gsx("prepare", "motif-size", "--num-graphs", 60, "--out", "mine", *store).code == 0
    for name in ("one", "two"):
        assert gsx("keygen", name).code == 0
    signer = gsx("sign", "mine", "--key", "one.key").out.split()[2]
    assert f"graphs, signed by {signer}" in gsx("verify", "mine", "--signature", "one.pub").out
    refused = gsx("verify", "mine", "--signature", "two.pub")
    assert refused.code == 3
    assert "signed by" not in refused.out.splitlines()[0]
    assert refused.out.splitlines()[1].startswith(
        f"         mine is signed by the key {signer}, not"
    )


def test_pull_names_its_own_options(store):
    result = gsx("pull", "deadbeef00", "--from", "there", *store)
    assert result.code == 3
    assert "Check the key, and the store in `--from`." in result.err
    assert "--store DIR" not in result.err


def test_a_damaged_source_cannot_be_pulled_by_repetition(store):
    assert gsx("prepare", "motif-size", "--num-graphs", 60, "--out", "mine", *store).code == 0
    shutil.copytree("mine", "damaged")
    from pathlib import Path

    shard = next(Path("damaged/data").glob("*.parquet"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    result = gsx("pull", "damaged", "--store", "other")
    assert result.code == 3
    assert "it is damaged or was changed" in result.err
    assert "Ask for an intact copy of the artifact." in result.err
    assert "again" not in result.err


def test_a_key_of_another_kind(store):
    from gsx.errors import ArtifactError
    from gsx.storage.artifacts.store import Store

    corpus = motif(Store.at(store[1]))
    with pytest.raises(ArtifactError, match=r"is a corpus, not an extractor\."):
        Store.at(store[1]).resolve(corpus.key, kind="extractor")


def test_labels_any_of_text_classes(store, tmp_path):
    lines = TABLE.replace(",0\n", ",no\n").replace(",1\n", ",yes\n")
    (tmp_path / "mine.csv").write_text(lines)
    made = gsx("prepare", "--smiles", "mine.csv", "--smiles-column", "SMILES", "--target",
               "active", "--tag", "mine", *store)  # fmt: skip
    assert made.code == 0, made.err
    result = gsx("generate", "mine", "--recipe", "combine-any", *store)
    assert result.code == 2
    assert "Prepare it with the classes written as 0 and 1" in result.err


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 graphs"), (1, "1 graph"), (1200, "1,200 graphs")]
)
def test_numbers_agree_with_nouns(number, text):
    assert counted(number, "graph") == text


@pytest.mark.parametrize("layout", ["csv", "smi", "sdf", "chemprop"])
def test_tables_are_exported_without_torch(store, layout):
    import subprocess
    import sys

    made = gsx("prepare", "--smiles", "mine.csv", "--smiles-column", "SMILES", "--target",
               "active", "--tag", "mine", *store)  # fmt: skip
    assert made.code == 0, made.err
    words = ["export", "mine", "out", "--to", layout, *store]
    code = (
        "import sys; sys.modules['torch'] = None\n"
        f"from gsx.cli.main import cli; cli({words!r}, standalone_mode=False)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
