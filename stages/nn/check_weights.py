"""Check the weights of a model file before a network is built for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import nn

from gsx.errors import ArtifactError
from gsx.ragged import Array


def check_weights(build: Callable[[], nn.Module], arrays: Mapping[str, Array], where: str) -> None:
    """Raise ArtifactError unless the weights of a file have the shapes that ``build`` needs.

    The network is built without memory, because a description may claim any size.
    """
    with torch.device("meta"):
        state = build().state_dict()
    # Single numbers are stored as arrays of length 1.
    expected = {name: tuple(values.shape) or (1,) for name, values in state.items()}
    actual = {name: values.shape for name, values in arrays.items()}
    problem = next(
        (
            f"`{name}` has the shape {actual.get(name)}; expected {shape}"
            for name, shape in expected.items()
            if actual.get(name) != shape
        ),
        next((f"`{name}` is unknown" for name in actual if name not in expected), None),
    )
    if problem is None and not all(map(_is_finite, arrays.values())):
        problem = "some are no finite real numbers"
    if problem is not None:
        raise ArtifactError(
            f"{where}: the weights do not match `model.json` ({problem}). Another version of gsx "
            "may have written them. Build the model again with `--force`."
        )


def _is_finite(values: Array) -> bool:
    return values.dtype.kind == "i" or (
        values.dtype.kind == "f" and bool(np.isfinite(values).all())
    )
