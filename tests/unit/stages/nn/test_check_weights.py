import numpy as np
import pytest
from torch import nn

from gsx.errors import ArtifactError
from gsx.stages.nn.batches import BackboneShape
from gsx.stages.nn.build_network import build_empty_network, load_network
from gsx.stages.nn.check_weights import check_weights


def build():
    return nn.Linear(3, 2)


def weights(**changes):
    arrays = {"weight": np.zeros((2, 3), np.float32), "bias": np.zeros(2, np.float32), **changes}
    return {name: values for name, values in arrays.items() if values is not None}


def test_weights_of_the_network_are_accepted():
    check_weights(build, weights(), "here")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"bias": None}, r"`bias` has the shape None; expected \(2,\)"),
        ({"bias": np.zeros(3, np.float32)}, r"`bias` has the shape \(3,\); expected \(2,\)"),
        ({"more": np.zeros(1, np.float32)}, "`more` is unknown"),
        ({"bias": np.array([0, np.nan], np.float32)}, "no finite real numbers"),
        ({"bias": np.array([0, np.inf], np.float32)}, "no finite real numbers"),
        ({"bias": np.zeros(2, np.complex64)}, "no finite real numbers"),
        ({"bias": np.zeros(2, bool)}, "no finite real numbers"),
    ],
)
def test_other_weights_are_refused(changes, problem):
    with pytest.raises(ArtifactError, match=rf"here: the weights do not match.*{problem}"):
        check_weights(build, weights(**changes), "here")


def test_a_network_of_any_claimed_size_is_checked_without_memory():
    """The weights of the claimed network would take 8 TiB."""
    small = BackboneShape(backbone="gin", features=2, width=4, layers=2, outputs=2)
    state = build_empty_network(small).state_dict()
    arrays = {name: np.atleast_1d(values.numpy()) for name, values in state.items()}
    assert isinstance(load_network(small, arrays, "here"), nn.Module)
    claimed = BackboneShape(backbone="gin", features=2, width=1 << 20, layers=2, outputs=2)
    with pytest.raises(ArtifactError, match=r"here: the weights do not match `model\.json`"):
        load_network(claimed, arrays, "here")
