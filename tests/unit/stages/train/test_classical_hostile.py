"""Linear models of an unknown author: bounded numbers, and arrays that fit together."""

import msgspec
import numpy as np
import pytest

from gsx.errors import ArtifactError
from gsx.stages.train.classical import ClassicalDescription, ClassicalShape, restore_classical

SHAPE = {
    "kind": "wl",
    "counts": "counts",
    "rounds": 2,
    "strength": 0.1,
    "features": 3,
    "edge_features": 0,
    "outputs": 2,
}
FLAG = np.zeros(1, bool)


def restore(columns, arrays, **changes):
    shape = msgspec.convert({**SHAPE, **changes}, ClassicalShape)
    linear = {"linear.weights": np.ones((columns, 2)), "linear.bias": np.zeros(2)}
    stored = {f"space.{name}": values for name, values in arrays.items()}
    description = ClassicalDescription(task="classification", classical=shape)
    return restore_classical(description, {**linear, **stored}, "here")


@pytest.mark.parametrize(
    ("name", "value"), [("rounds", -1), ("rounds", 10**9), ("features", -1), ("outputs", 10**12)]
)
def test_numbers_are_bounded(name, value):
    with pytest.raises(msgspec.ValidationError, match=name):
        msgspec.convert({**SHAPE, name: value}, ClassicalShape)


def bins(count):
    directions = np.ones((3, count), np.float32)
    arrays = {"center": np.zeros(3, np.float32), "directions": directions}
    return {**arrays, "cuts": np.zeros((count, 1), np.float32), "continuous_edges": FLAG}


def test_directions_are_bounded():
    arrays = {"vocabulary": np.zeros(4, np.uint64)}
    assert restore(4, {**arrays, **bins(6)}).shape.kind == "wl"
    with pytest.raises(ArtifactError, match="more than 6 directions"):
        restore(4, {**arrays, **bins(7)})


def test_scales_are_positive_and_belong_to_features():
    scale = np.ones(3, np.float32)
    assert restore(10, {"scale": scale}, kind="node").shape.kind == "node"
    with pytest.raises(ArtifactError, match="not positive"):
        restore(10, {"scale": scale * 0}, kind="node")
    with pytest.raises(ArtifactError, match="do not exist"):
        restore(13, {"scale": np.ones(4, np.float32)}, kind="node")
    means = {"feature": np.zeros(0, np.int64), "category": np.zeros(0, np.int64)}
    assert restore(4, {**means, "scale": np.ones(3)}, kind="mean").shape.kind == "mean"
    with pytest.raises(ArtifactError, match="not positive"):
        restore(4, {**means, "scale": -np.ones(3)}, kind="mean")


def test_components_are_bounded():
    scale = np.ones(3, np.float32)
    arrays = {"scale": scale, "components": np.ones((3, 129), np.float32)}
    with pytest.raises(ArtifactError, match="more than 128 components"):
        restore(3 + 2 * 129 + 1, arrays, kind="node")
