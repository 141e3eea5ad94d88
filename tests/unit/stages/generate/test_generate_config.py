"""Options and corpora that ``generate`` rejects before it builds anything."""

import msgspec
import numpy as np
import pytest

from gsx.errors import StageError, UsageError
from gsx.stages.generate.config import GenerateConfig, needs, resolve
from gsx.stages.generate.splice.build import _require_classes
from gsx.stages.generate.splice.load_inputs import _require_splicable
from gsx.stages.prepare.synthetic import motif
from tests.support.run_stages import (
    attributed,
    attributed_info,
    corpus_without_edges,
    run_stage,
    write_small_corpus,
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"options": "000"}, "options 000 generates nothing"),
        ({"options": "12"}, "options must be three bits such as 101; got `12`"),
        ({"f": (0, 4)}, r"f must be a range within 1..16, from low to high; got 0..4"),
        ({"f": (5, 4)}, r"got 5..4"),
        ({"f": (2, 17)}, r"got 2..17"),
        ({"options": "001", "f": (1, 1)}, "option 3 splices at least two graphs"),
        ({"ratio": 0.0}, "ratio must be positive; got 0.0"),
        ({"ratio": float("nan")}, "ratio must be positive; got nan"),
        ({"count": 0}, "count must be at least 1; got 0"),
        ({"ratio": 1.0, "count": 5}, "give `ratio` or `count`, not both"),
        ({"options": "110", "labels": "any"}, "labels applies to whole graphs; enable option 3"),
        ({"fragments": -1}, r"fragments must be in 0..16; got -1"),
        ({"shard_graphs": 0}, "shard_graphs must be at least 1; got 0"),
        ({"formats": ()}, "formats must name"),
        ({"grow": 0.5}, "grow must be 0 or in 1..64; got 0.5"),
        ({"grow": 65}, "grow must be 0 or in 1..64; got 65"),
        ({"grow": 2, "bridges": "none"}, "grow connects copies with bridges"),
        ({"grow": 2, "options": "101"}, "enable option 2, such as 010"),
        ({"chords": 1.5}, r"chords must be in \[0, 1\]; got 1.5"),
        ({"chords": 0.1, "bridges": "none"}, "chords would connect the components"),
        ({"featx": True, "featx_shape": 0.0}, "featx_shape must be positive; got 0"),
        ({"featx": True, "featx_scale": -1.0}, "featx_scale must be positive; got -1"),
        ({"featx": True, "replicas": 0}, "replicas must be at least 1; got 0"),
        ({"featx": True, "featx_rounds": 0}, "featx_rounds must be at least 1; got 0"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(UsageError, match=message):
        resolve(GenerateConfig(**options))


def test_only_inputs_that_the_options_use_are_needed():
    assert needs(GenerateConfig(options="001")) == {"corpus", "bridge"}
    assert needs(GenerateConfig(options="100")) == {"corpus", "extractor"}
    assert needs(GenerateConfig(options="011", bridges="none")) == {"corpus", "extractor"}
    assert needs(GenerateConfig(options="001", bridges="none")) == {"corpus"}
    assert needs(GenerateConfig(options="000", featx=True)) == {"corpus", "mask"}


def test_f_larger_than_the_number_of_graphs_is_rejected(tmp_path):
    corpus = write_small_corpus(tmp_path, attributed, attributed_info(), {"train": 6, "id_val": 6})
    bridge = run_stage(tmp_path, "bridge", {"epochs": 1}, {"prepare": corpus})
    with pytest.raises(
        UsageError, match="f of 9 needs that many different graphs; attributed has 6"
    ):
        run_stage(
            tmp_path,
            "generate",
            {"options": "001", "f": [2, 9]},
            {"prepare": corpus, "bridge": bridge},
        )


def test_class_without_partners_is_rejected():
    classes, component = np.array([0, 1, 2]), np.array([0, 1, 2])
    info = motif.corpus_info("motif-size")
    _require_classes(classes, 2, component, component, info)
    with pytest.raises(StageError, match="no training graph of class 2 of motif-size can be a"):
        _require_classes(classes, 2, component, np.array([0, 1, -1]), info)


def test_corpus_of_disconnected_graphs_is_rejected(tmp_path):
    corpus = corpus_without_edges(tmp_path)
    with pytest.raises(StageError, match=r"option 3: no training graph .* connected component"):
        run_stage(tmp_path, "generate", {"options": "001", "bridges": "none"}, {"prepare": corpus})


def test_corpus_of_labelled_nodes_is_rejected():
    info = msgspec.structs.replace(motif.corpus_info("motif-size"), level="node")
    with pytest.raises(StageError, match="has node labels; splicing needs"):
        _require_splicable(info, None)
