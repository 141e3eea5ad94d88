"""Rules that every augmentation method keeps."""

import pytest

from gsx.errors import GsxError
from gsx.stages.augment.config import METHODS
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.run_stages import (
    corpora_of_both_levels,
    run_stage,
    unchanged,
    write_small_corpus,
)

SIZES = {"train": 30, "ood_val": 6}
NODE_METHODS = ("drop-edge", "mask-feature")
OPTIONS = {"g-mixup": {"count": 6}}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        return corpora_of_both_levels(tmp_path_factory.mktemp("store"), SIZES)


def augment(folder, method, corpus, **options):
    options = {"method": method, **OPTIONS.get(method, {}), **options}
    return run_stage(folder, "augment", options, {"prepare": corpus})


@pytest.mark.parametrize("method", METHODS)
def test_augmented_graphs_are_deterministic_and_valid(method, corpora, tmp_path):
    first, second = (augment(tmp_path / name, method, corpora["graph"]) for name in "ab")
    assert first.manifest.digest == second.manifest.digest
    assert verify_artifact(first.location).problems == ()
    other = augment(tmp_path / "a", method, corpora["graph"], seed=1)
    assert other.manifest.digest != first.manifest.digest


@pytest.mark.parametrize("method", METHODS)
def test_source_graphs_stay_unchanged(method, corpora, tmp_path):
    source = Corpus(corpora["graph"]).table()
    augmented = Corpus(augment(tmp_path, method, corpora["graph"])).table()
    origin = augmented.dense("graph", "origin")
    assert (origin != 0).any()
    assert augmented.filter(origin == 0).equals(source)


@pytest.mark.parametrize("method", METHODS)
def test_node_corpora_get_replicas_or_a_clear_error(method, corpora, tmp_path):
    if method in NODE_METHODS:
        artifact = augment(tmp_path, method, corpora["node"])
        assert verify_artifact(artifact.location).problems == ()
    else:
        with pytest.raises(GsxError, match=method):
            augment(tmp_path, method, corpora["node"])
        assert list(Store.at(tmp_path).artifacts()) == []


@pytest.mark.parametrize("sizes", [{"train": 1}, {"train": 0, "ood_val": 2}], ids=["one", "empty"])
@pytest.mark.parametrize("method", METHODS)
def test_tiny_corpora_are_augmented_or_rejected(method, sizes, tmp_path):
    tiny = write_small_corpus(tmp_path, unchanged, sizes=sizes)
    try:
        artifact = augment(tmp_path, method, tiny)
    except GsxError:
        assert [found.key for found in Store.at(tmp_path).artifacts()] == [tiny.key]
    else:
        assert verify_artifact(artifact.location).problems == ()
