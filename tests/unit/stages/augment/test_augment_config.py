"""Options and corpora that ``augment`` rejects, and their errors."""

import msgspec
import numpy as np
import pytest

from gsx.errors import StageError, UsageError
from gsx.stages.augment.config import AugmentConfig, resolve
from gsx.table import GraphTable
from tests.support.augmented_graphs import augment, augmented_graphs
from tests.support.run_stages import corpus_without_edges
from tests.support.synthetic_corpora import planted_graphs, write_planted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "drop-node", "rate": 0.0},
         "rate must be between 0 and 1, such as 0.1; got 0"),
        ({"method": "drop-edge", "rate": 1.0},
         "rate must be between 0 and 1, such as 0.1; got 1"),
        ({"method": "drop-edge", "rate": float("nan")},
         "rate must be between 0 and 1, such as 0.1; got nan"),
        ({"method": "drop-edge", "mix": (0.1, 0.2)},
         "drop-edge has no option `mix`; its options are `rate`, `replicas`"),
        ({"method": "g-mixup", "rate": 0.1},
         "g-mixup has no option `rate`; its options are `mix`, `pairs`"),
        ({"method": "g-mixup", "mix": (0.3, 0.2)},
         "mix must be a range between 0 and 1, from low to high, such as 0.1..0.2; got 0.3..0.2"),
        ({"method": "g-mixup", "pairs": 0}, "pairs must be at least 1; got 0"),
        ({"method": "mask-feature", "replicas": 0}, "replicas must be at least 1; got 0"),
        ({"method": "drop-edge", "ratio": 1.0, "count": 3}, "give `ratio` or `count`, not both"),
        ({"method": "drop-edge", "ratio": -1.0}, "ratio must be positive; got -1"),
        ({"method": "drop-edge", "formats": ()},
         "formats must name `parquet`, `zarr` or both, each once"),
    ],
)  # fmt: skip
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(UsageError) as error:
        resolve(AugmentConfig(**options))
    assert str(error.value) == message


def test_g_mixup_rejects_a_single_class(tmp_path):
    table, info = planted_graphs(30)
    label = np.zeros(30, dtype=np.int32)
    table = table.with_columns(graph={"label": label, "y": np.eye(3, dtype=np.float32)[label]})
    built = {"folder": tmp_path, "prepare": write_planted(tmp_path, table, info)}
    with pytest.raises(StageError) as error:
        augment(built, "g-mixup")
    assert str(error.value) == (
        "G-Mixup mixes two classes; the training graphs of planted-graphs with a hard label have "
        "1. Use another augmenter."
    )
    assert len(list((tmp_path / "corpus").iterdir())) == 1


def test_g_mixup_rejects_graphs_of_one_node(tmp_path):
    table, info = planted_graphs(30)
    single = GraphTable(
        node_ptr=np.arange(31),
        edge_ptr=np.zeros(31, dtype=np.int64),
        graph=table.graph,
        node={"node_feat": table.node["node_feat"][::3]},
        edge={name: values[:0] for name, values in table.edge.items()},
    )
    built = {"folder": tmp_path, "prepare": write_planted(tmp_path, single, info)}
    with pytest.raises(StageError) as error:
        augment(built, "g-mixup")
    assert str(error.value) == (
        "G-Mixup samples graphs of the median size, which is 1 for planted-graphs; it must be in "
        "2..2048. Use another augmenter."
    )


def test_g_mixup_rejects_regression(tmp_path):
    table, info = planted_graphs(30)
    info = msgspec.structs.replace(info, task="regression", metric="rmse")
    table = table.with_columns(graph={"label": np.full(30, -1, dtype=np.int32)})
    built = {"folder": tmp_path, "prepare": write_planted(tmp_path, table, info)}
    with pytest.raises(StageError) as error:
        augment(built, "g-mixup")
    assert str(error.value) == (
        "planted-graphs is regression; G-Mixup mixes classes and needs one class label. Use "
        "another augmenter."
    )
    assert len(augmented_graphs(augment(built, "drop-edge"), "drop-edge")) == 30


def test_drop_edge_rejects_graphs_without_edges(tmp_path):
    built = {"folder": tmp_path, "prepare": corpus_without_edges(tmp_path)}
    with pytest.raises(StageError) as error:
        augment(built, "drop-edge")
    assert str(error.value) == (
        "drop-edge changed nothing: all 30 graphs of motif-size are unchanged. Raise the rate, or "
        "use another augmenter."
    )
    mixed = augmented_graphs(augment(built, "g-mixup"), "g-mixup")
    assert (mixed.num_nodes == 1).all()
