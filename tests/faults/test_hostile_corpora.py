"""A received corpus with valid hashes cannot write files, hide columns or end in a traceback."""

import json
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from numcodecs.zstd import Zstd

import gsx as package
from gsx.errors import ArtifactError
from gsx.schema import Column, CorpusInfo
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.arrow import FOOTER, to_arrow
from gsx.storage.corpora.corpus import open_corpus
from gsx.storage.corpora.hot_cache import hot_cache_dir
from tests.support.artifacts import gsx, motif
from tests.support.hostile_artifacts import edit_file, rewrite_manifest


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        store = Store.at(tmp_path_factory.mktemp("store"))
        return motif(store, options='formats = ["parquet", "zarr"]').location.local


@pytest.fixture
def corpus(honest, tmp_path):
    """Return a copy of an honest corpus."""
    shutil.copytree(honest, tmp_path / "corpus")
    for path in (tmp_path / "corpus").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return tmp_path / "corpus"


def without_zarr(folder):
    shutil.rmtree(folder / "zarr")


def every_command(folder):
    """Return the commands that read a corpus."""
    outside, store = folder.parent, ("--store", folder.parent / "store")
    return (
        ("verify", folder),
        ("describe", folder, *store),
        ("report", folder, "-o", outside / "page.html", *store),
        ("export", folder, outside / "out", *store),
        ("train", folder, "--epochs", "1", *store),
    )


def assert_refused(folder, text, *, every=False):
    """Commands end with exit code 3 and a message, and opening raises ArtifactError."""
    for words in every_command(folder)[: None if every else 2]:
        result = gsx(*words)
        assert result.code == 3, (words, result)
        assert text in result.out + result.err
        assert "Traceback" not in result.err


@pytest.mark.parametrize(
    "name", ["../../escaped", "escaped/x", "/tmp/escaped", "c", "zarr.json", "node_ptr", "y.ptr"]
)
def test_a_column_name_is_never_a_path(corpus, name):
    """The footers of the shards agree, and the artifact has valid hashes."""
    before = {path for path in corpus.parent.rglob("*") if "cache" not in path.parts}
    without_zarr(corpus)

    def rename(document):
        for column in document["columns"]:
            if column["name"] == "basis_id":
                column["name"] = name

    edit_file(corpus, "corpus.json", rename)
    for shard in (corpus / "data").iterdir():
        table = pq.read_table(shard)
        footer = json.loads(table.schema.metadata[FOOTER])
        rename(footer)
        names = [name if old == "basis_id" else old for old in table.column_names]
        table = table.rename_columns(names)
        pq.write_table(table.replace_schema_metadata({FOOTER: json.dumps(footer)}), shard)
    rewrite_manifest(corpus)
    assert_refused(corpus, "column")
    with pytest.raises(ArtifactError):
        package.open(corpus).loader(4, shuffle=True, cache="always")
    created = {path for path in corpus.parent.rglob("*") if "escaped" in path.name}
    assert created == set()
    assert not Path("/tmp/escaped").exists()
    assert before  # the fixture is not empty


def test_files_of_caches_do_not_depend_on_names(corpus):
    opened = open_corpus(corpus)
    list(opened.loader(4, shuffle=True, cache="always"))
    folder = hot_cache_dir(opened.artifact.manifest.digest)
    assert {path.suffix for path in folder.iterdir()} == {".bin", ".json"}


@pytest.mark.parametrize("dropped", ["y", "env_id", "num_nodes", "smiles"])
def test_a_shard_without_a_column_is_refused(corpus, dropped):
    """`smiles` is in no shard, but in corpus.json."""
    without_zarr(corpus)
    if dropped == "smiles":
        extra = Column(name="smiles", axis="graph", dtype="text", ragged=True)
        edit_file(
            corpus,
            "corpus.json",
            lambda document: document["columns"].append(msgspec.to_builtins(extra)),
        )
    else:
        for shard in (corpus / "data").glob("train*"):
            table = pq.read_table(shard)
            footer = json.loads(table.schema.metadata[FOOTER])
            footer["columns"] = [c for c in footer["columns"] if c["name"] != dropped]
            table = table.drop_columns([dropped])
            pq.write_table(table.replace_schema_metadata({FOOTER: json.dumps(footer)}), shard)
    rewrite_manifest(corpus)
    with pytest.raises(ArtifactError):
        list(package.open(corpus).loader(4, cache="never"))
    assert_refused(corpus, "train-00000")


def test_zarr_attributes_agree_with_the_description(corpus):
    shutil.rmtree(corpus / "data")

    def rename(document):
        document["attributes"]["gsx"]["outputs"][0] = "another class"

    edit_file(corpus, "zarr/train-00000-of-00001/zarr.json", rename)
    rewrite_manifest(corpus)
    assert_refused(corpus, "describes another corpus than corpus.json")


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("label", 100, "label 100 is outside the 3 classes"),
        ("label", -7, "label -7 is outside the 3 classes"),
        ("env_id", 55, "environment 55 is not one of the 3 environments"),
    ],
)
def test_codes_that_readers_use_as_indices_are_checked(corpus, column, value, text):
    info = msgspec.json.decode((corpus / "corpus.json").read_bytes(), type=CorpusInfo)
    table = open_corpus(corpus).table(split="train")
    values = table.dense("graph", column).copy()
    values[2] = value
    without_zarr(corpus)
    (shard,) = (corpus / "data").glob("train*")
    shard.unlink()
    pq.write_table(to_arrow(table.with_columns(graph={column: values}), info), shard)
    rewrite_manifest(corpus)
    assert_refused(corpus, text)


def set_path(document, path, value):
    """Set a value inside nested objects and lists."""
    for key in path[:-1]:
        document = document[key]
    if value is None:
        del document[path[-1]]
    else:
        document[path[-1]] = value


NESTED: list = []
for _ in range(20):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["groups"], 5),
        (["groups"], {}),
        (["groups"], None),
        (["groups", 0], [1]),
        (["groups", 0, "split"], "holiday"),
        (["groups", 0, "env_id"], 10**25),
        (["groups", 0, "env_id"], -2),
        (["groups", 0, "count"], 1.5),
        (["groups", 0, "count"], -1),
        (["groups", 0, "labels"], ["a"]),
        (["groups", 0, "labels"], None),
        (["groups", 0, "max_nodes"], 2**63),
        (["environments"], "many"),
        (["environments", 0, "id"], "0"),
        (["environments", 0, "name"], 7),
        (["environments", 0, "name"], None),
        (["oddities"], []),
        (["oddities", "self_loops"], "some"),
        (["name"], ["motif"]),
        (["quality"], 5),
        (["quality"], {"option_1": 5}),
        (["quality"], {"option_1": {"graphs": 0}}),
        (["quality"], {"featx": {"graphs": "many"}}),
        (["quality"], {"augment": NESTED}),
    ],
)
def test_a_summary_of_another_shape_is_refused(corpus, path, value):
    rewrite_manifest(corpus, lambda document: set_path(document["summary"], path, value))
    result = gsx("show", corpus, *(("--json",) if len(path) > 1 else ()))
    assert (result.code, "Traceback" in result.err) == (3, False), result
    assert "the summary of corpus" in result.err
    with pytest.raises(ArtifactError, match="the summary of corpus"):
        package.open(corpus)._repr_html_()


def test_every_command_that_reads_a_summary_checks_it(corpus):
    rewrite_manifest(corpus, lambda document: set_path(document["summary"], ["groups"], 5))
    _, _, report, export, _ = every_command(corpus)
    for words in (("show", corpus), ("show", corpus, "--json"), report, export):
        result = gsx(*words)
        assert (result.code, "Traceback" in result.err) == (3, False), (words, result)
        assert "the summary of corpus" in result.err


def test_every_command_that_reads_graphs_checks_the_description(corpus):
    (corpus / "corpus.json").write_text("{}")
    rewrite_manifest(corpus)
    assert_refused(corpus, "corpus.json cannot be read", every=True)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["groups", 0, "labels"], [1, 2]),
        (["groups", 0, "labels"], [900, 0, 0]),
        (["groups", 0, "env_id"], 3),
        (["environments", 1, "id"], 5),
        (["environments", 1, "name"], "another name"),
        (["environments"], []),
        (["node_groups"], []),
    ],
)
def test_counts_that_disagree_with_the_description_are_refused(corpus, path, value):
    rewrite_manifest(corpus, lambda document: set_path(document["summary"], path, value))
    with pytest.raises(ArtifactError, match=r"do not agree with corpus\.json"):
        package.open(corpus)._repr_html_()


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", "5", '{"name": NaN}', "[" * 100_000, '{"name": "' + "a" * 5000 + '"}',
     "\ud800".encode("utf-8", "surrogatepass"), b"\xff"],
    ids=["empty", "object", "list", "null", "number", "nan", "nested", "long", "surrogate", "byte"],
)  # fmt: skip
def test_a_description_that_is_none_is_refused(corpus, text):
    (corpus / "corpus.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    rewrite_manifest(corpus)
    assert_refused(corpus, "corpus.json cannot be read")


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (["columns", 0, "dtype"], "float128", "has the type 'float128'"),
        (["columns", 0, "dtype"], "int32", "has the dtype 'int32'; expected 'int64'"),
        (["columns", 1, "vocabulary"], ["train"], "column `split` has the vocabulary"),
        (["columns", 4, "vocabulary"], ["source"], "column `origin` has the vocabulary"),
        (["columns", 0], None, "the standard column `graph_id` is missing"),
        (["num_features"], 7, "`node_feat` has the width 1; expected 7"),
        (["num_features"], 10**30, "it must be in 1..1048576"),
        (["outputs"], ["a"], "column `y` has the width 3; expected 1"),
        (["environments", 0, "id"], 4, "environment ids must be consecutive"),
        (["environments", 0, "origin"], "magic", "unknown origin `magic`"),
        (["name"], "a\x1b[2J", "U+001B"),
        (["domain"], "\u202esize", "U+202E"),
        (["level"], "edge", "Invalid enum value 'edge'"),
        (["level"], "node", "the standard column `node_y` is missing"),
        (["color"], "red", "unknown field `color`"),
    ],
)
def test_an_inconsistent_description_is_refused(corpus, path, value, text):
    edit_file(corpus, "corpus.json", lambda document: set_path(document, path, value))
    rewrite_manifest(corpus)
    assert_refused(corpus, text)


@pytest.mark.parametrize(
    "name", ["data/holiday-00000-of-00001.parquet", "data", "corpus.json", "data/x/y.parquet"]
)
def test_graphs_outside_of_shards_are_refused(corpus, name):
    def list_graphs(document):
        entry = next(iter(document["files"].values()))
        document["files"].setdefault(name, dict(entry))["rows"] = 3

    rewrite_manifest(corpus, list_graphs)
    with pytest.raises(ArtifactError):
        package.open(corpus)


def test_a_shard_with_text_that_is_not_utf8_is_refused(corpus):
    """Arrow checks text of Parquet; arrays of Zarr are bytes."""
    group = corpus / "zarr" / "train-00000-of-00001"
    rows = open_corpus(corpus).splits["train"]
    shutil.rmtree(corpus / "data")
    for name, values in (
        ("provenance.stream", np.full(rows, 0xC3, dtype=np.uint8)),
        ("provenance.stream.ptr", np.arange(rows + 1)),
    ):
        metadata = json.loads((group / name / "zarr.json").read_text())
        metadata["shape"] = [len(values)]
        metadata["chunk_grid"]["configuration"]["chunk_shape"] = [len(values)]
        (group / name / "zarr.json").write_text(json.dumps(metadata))
        (group / name / "c").mkdir(exist_ok=True)
        (group / name / "c" / "0").write_bytes(Zstd(level=1).encode(values))

    def add_chunk(document):
        entry = document["files"]["zarr/train-00000-of-00001/label/c/0"]
        path = "zarr/train-00000-of-00001/provenance.stream/c/0"
        document["files"][path] = dict(entry)

    rewrite_manifest(corpus, add_chunk)
    rewrite_manifest(corpus)
    with pytest.raises(ArtifactError, match="holds bytes that are not UTF-8 text"):
        package.open(corpus).table()


@pytest.mark.parametrize("layout", ["csv", "dgl", "pyg", "portable"])
@pytest.mark.parametrize("name", ["env_table.json", "corpus.json"])
def test_an_export_of_a_corpus_without_a_file_is_refused(corpus, layout, name):
    (corpus / name).unlink()
    rewrite_manifest(corpus)
    out = corpus.parent / "out"
    result = gsx("export", corpus, out, "--to", layout, "--store", corpus.parent / "store")
    assert result.code == 3 or (layout, name) == ("portable", "env_table.json")
    assert "Traceback" not in result.err
    assert result.code == 0 or name in result.err
