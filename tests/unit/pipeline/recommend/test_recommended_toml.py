"""The recipe file of a recommendation is valid TOML for any names and values of a corpus."""

import tomllib
from dataclasses import dataclass, field
from typing import Any

import pytest

from gsx.pipeline.recommend.evidence import Evidence
from gsx.pipeline.recommend.recommended_toml import recommended_toml

TEXTS = [
    "plain",
    'a"b\\c',
    "\U0001f600",
    "line\n[generate]\nrecipe = 1",
    "\x7f\x1b[31m",
    "\u202e",
    "",
]


@dataclass
class Source:
    """What the recipe needs of a manifest."""

    stage: str = "prepare"
    config: dict[str, Any] = field(default_factory=dict)


def recipe(config, dataset="motif-size", reason="because"):
    evidence = Evidence(
        dataset=dataset,
        metric="accuracy",
        choice="drop-edge",
        reason=reason,
        decided_by="screen",
        budget=0,
    )
    return tomllib.loads(recommended_toml(evidence, Source(config=config)))


@pytest.mark.parametrize("text", TEXTS)
def test_texts_and_keys_keep_their_value(text):
    config = {"dataset": text, text: 1, "nested": {text: [text, {"a": text}]}, "skipped": None}
    assert recipe(config)["prepare"] == {
        "dataset": text,
        text: 1,
        "nested": {text: [text, {"a": text}]},
    }


@pytest.mark.parametrize("text", TEXTS)
def test_comments_stay_comments(text):
    document = recipe({"dataset": "x"}, dataset=text, reason=text)
    assert document.keys() == {"prepare", "augment"}
    assert document["prepare"] == {"dataset": "x"}


def test_numbers_lists_and_booleans_keep_their_value():
    config = {"a": 1, "b": 0.5, "c": True, "d": [1, 2], "e": ("x", "y"), "f": [None, 1]}
    assert recipe(config)["prepare"] == {**config, "e": ["x", "y"], "f": [1]}
