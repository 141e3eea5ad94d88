"""The preset `quick` of `gsx pretrain` trains the same models as that of `gsx generate`."""

import json

import pytest

from gsx.storage.artifacts.store import Store
from tests.support.artifacts import gsx, motif


@pytest.fixture
def corpus(tmp_path):
    return motif(Store.at(tmp_path)).key


def keys(tmp_path, *words):
    """Return the keys of the steps of a dry run, by stage."""
    result = gsx(*words, "--store", tmp_path, "--dry-run", "--json")
    assert result.code == 0, result.err
    return {step["step"]: step["key"] for step in json.loads(result.out)["steps"]}


@pytest.mark.parametrize("preset", ["quick", "default"])
def test_pretraining_commands_use_the_preset_of_generate(tmp_path, corpus, preset):
    words = ("--options", "110", "--featx", "--preset", preset)
    expected = keys(tmp_path, "generate", corpus, *words)
    for stage in ("extract", "bridge", "mask"):
        trained = keys(tmp_path, "pretrain", stage, corpus, "--preset", preset)
        assert trained[stage] == expected[stage]


def test_other_options_override_the_preset(tmp_path, corpus):
    quick = keys(tmp_path, "pretrain", "extract", corpus, "--preset", "quick")
    same = ("--node-epochs", 8, "--set-epochs", 4, "--preset", "quick")
    assert keys(tmp_path, "pretrain", "extract", corpus, *same) == keys(
        tmp_path, "pretrain", "extract", corpus
    )
    assert quick != keys(tmp_path, "pretrain", "extract", corpus)
