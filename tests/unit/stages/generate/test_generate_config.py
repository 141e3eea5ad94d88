"""Options and corpora that generation refuses before it makes anything."""

import numpy as np
import pytest

from gsx.errors import StageError, UsageError
from gsx.stages.generate.stage import GenerateConfig, needs, resolve
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
        ({"options": "000"}, "options 000 makes nothing"),
        ({"options": "12"}, "options must be three bits such as 101; got `12`"),
        ({"f": (0, 4)}, r"f must lie in 1..16, from low to high; got 0..4"),
        ({"f": (5, 4)}, r"got 5..4"),
        ({"f": (2, 17)}, r"got 2..17"),
        ({"options": "001", "f": (1, 1)}, "option 3 splices two graphs or more"),
        ({"ratio": 0.0}, "ratio must be positive; got 0.0"),
        ({"ratio": float("nan")}, "ratio must be positive; got nan"),
        ({"count": 0}, "count must be at least 1; got 0"),
        ({"ratio": 1.0, "count": 5}, "give `ratio` or `count`, not both"),
        ({"options": "110", "labels": "any"}, "labels is for whole graphs; turn option 3 on"),
        ({"fragments": -1}, r"fragments must lie in 0..16; got -1"),
        ({"shard_graphs": 0}, "shard_graphs must be at least 1; got 0"),
        ({"formats": ()}, "formats must name"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        resolve(GenerateConfig(**options))


def test_only_what_the_options_use_is_asked_for():
    assert needs(GenerateConfig(options="001")) == {"corpus", "bridge"}
    assert needs(GenerateConfig(options="100")) == {"corpus", "extractor"}
    assert needs(GenerateConfig(options="011", bridges="none")) == {"corpus", "extractor"}
    assert needs(GenerateConfig(options="001", bridges="none")) == {"corpus"}


def test_more_graphs_per_splice_than_there_are_is_refused(tmp_path):
    corpus = write_small_corpus(tmp_path, attributed, attributed_info(), {"train": 6, "id_val": 6})
    bridge = run_stage(tmp_path, "bridge", {"epochs": 1}, {"prepare": corpus})
    with pytest.raises(UsageError, match="f of 9 needs as many different graphs; attributed has 6"):
        run_stage(
            tmp_path,
            "generate",
            {"options": "001", "f": [2, 9]},
            {"prepare": corpus, "bridge": bridge},
        )


def test_a_class_without_partners_is_refused():
    from gsx.stages.generate.splice.build import _require_classes
    from gsx.stages.prepare.synthetic import motif

    classes, everywhere = np.array([0, 1, 2]), np.array([0, 1, 2])
    info = motif.corpus_info("motif-size")
    _require_classes(classes, 2, everywhere, everywhere, info)
    with pytest.raises(StageError, match="no training graph of class 2 of motif-size can be a"):
        _require_classes(classes, 2, everywhere, np.array([0, 1, -1]), info)


def test_graphs_that_are_not_connected_are_left_out_and_counted(tmp_path):
    corpus = corpus_without_edges(tmp_path)
    with pytest.raises(StageError, match=r"option 3: no training graph .* connected component"):
        run_stage(tmp_path, "generate", {"options": "001", "bridges": "none"}, {"prepare": corpus})


def test_a_corpus_of_labelled_nodes_is_refused(tmp_path):
    import msgspec

    from gsx.stages.generate.splice.load_inputs import _require_splicable
    from gsx.stages.prepare.synthetic import motif

    info = msgspec.structs.replace(motif.corpus_info("motif-size"), level="node")
    with pytest.raises(StageError, match="labels nodes; splicing needs"):
        _require_splicable(info, None)
