"""Rules that every export format keeps."""

import pytest

from gsx.errors import GsxError
from gsx.stages.export.export import export
from gsx.stages.export.formats import EXPORT_FORMATS, format_named
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.sharing.bundle import Bundle
from tests.support.artifacts import contents
from tests.support.run_stages import corpora_of_both_levels, unchanged, write_small_corpus

NAMES = [export_format.name for export_format in EXPORT_FORMATS]
SIZES = {"train": 12, "id_val": 4, "ood_test": 4}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        folder = tmp_path_factory.mktemp("store")
        return Store.at(folder), corpora_of_both_levels(folder, SIZES)


@pytest.fixture(autouse=True)
def _fixed_date(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


def write(corpora, level, target, name):
    _, artifacts = corpora
    lineage = [artifacts[level].manifest]
    return export(Corpus(artifacts[level]), lineage, target, name)


def applies(name):
    return not format_named(name).molecules


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("name", NAMES)
def test_exports_are_deterministic_or_rejected(name, level, corpora, tmp_path):
    try:
        write(corpora, level, tmp_path / "a", name)
    except GsxError:
        assert not (tmp_path / "a").exists()
        assert not applies(name)
        return
    assert applies(name)
    write(corpora, level, tmp_path / "b", name)
    first, second = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert first.keys() == second.keys()
    assert [path for path in first if first[path] != second[path]] in ([], ["run.json"])


@pytest.mark.parametrize("name", [name for name in NAMES if applies(name)])
def test_a_failing_export_leaves_nothing(name, corpora, tmp_path, monkeypatch):
    calls = []

    def fail(self, *_, **__):
        calls.append(self)
        raise RuntimeError("disk on fire")

    for method in ("add", "write", "copy_files", "copy_file"):
        monkeypatch.setattr(Bundle, method, fail)
    with pytest.raises(RuntimeError, match="disk on fire"):
        write(corpora, "graph", tmp_path / "target", name)
    assert calls
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [name for name in NAMES if applies(name)])
def test_an_existing_directory_is_never_overwritten(name, corpora, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "notes.txt").write_text("mine")
    with pytest.raises(GsxError, match="target"):
        write(corpora, "graph", target, name)
    assert contents(target) == {"notes.txt": b"mine"}


@pytest.mark.parametrize("sizes", [{"train": 1}, {"train": 0, "ood_val": 2}], ids=["one", "empty"])
@pytest.mark.parametrize("name", [name for name in NAMES if applies(name)])
def test_tiny_corpora_are_exported_or_rejected(name, sizes, tmp_path):
    artifact = write_small_corpus(tmp_path / "store", unchanged, sizes=sizes)
    target = tmp_path / "target"
    try:
        export(Corpus(artifact), [artifact.manifest], target, name)
    except GsxError:
        assert not target.exists()
    else:
        assert (target / "manifest.json").is_file()
