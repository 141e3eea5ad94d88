"""Checkpoints: an interrupted training run resumes after its last finished epoch.

A run that resumes on the same kind of device gives the same bytes as an uninterrupted one. A run
that resumes on another kind of device does not. Checkpoints are files of the draft that are
discarded at the end, so they are never published.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from gsx import typed_values
from gsx.errors import StoreError
from gsx.stages.nn.training_loop import torch_stream
from gsx.storage.artifacts.atomic_files import translate_safetensors_errors
from gsx.storage.artifacts.draft import Draft

if TYPE_CHECKING:
    from gsx.stages.train.trainer import Trainer, TrainingResult

NAME = "checkpoint-{epoch:05}.safetensors"
_UNREADABLE = (
    *(AttributeError, LookupError, RecursionError, RuntimeError, TypeError, ValueError),
    *(SafetensorError, msgspec.MsgspecError),
)
"""Errors of a file with other content than `save` writes; a store may come from anybody."""


class _State(TypedDict):
    """Values of a checkpoint that are no tensors."""

    curves: list[dict[str, float | None]]
    """Scores of every epoch."""
    kept: dict[str, int]
    """Selection rule → epoch whose weights it keeps."""
    averaged_steps: int


def save(draft: Draft, trainer: Trainer, result: TrainingResult) -> None:
    """Write everything that the next epoch depends on, and discard the previous checkpoint."""
    from safetensors.torch import save_file

    arrays: dict[str, Tensor] = {}
    for prefix, module in _modules(trainer).items():
        arrays |= {f"{prefix}.{name}": value for name, value in module.state_dict().items()}
    for prefix, optimizer in _optimizers(trainer).items():
        for number, state in optimizer.state_dict()["state"].items():
            arrays |= {f"{prefix}.{number}.{name}": value for name, value in state.items()}
    arrays["stream"] = trainer.network.dropout.stream.get_state()
    for rule, selected in result.selected.items():
        values = {name: torch.from_numpy(value) for name, value in selected.weights.items()}
        arrays |= {f"kept.{rule}.{name}": value for name, value in values.items()}
    tensors = {name: value.detach().cpu().clone().contiguous() for name, value in arrays.items()}
    described: _State = {
        "curves": result.curves,
        "kept": {rule: selected.epoch for rule, selected in result.selected.items()},
        "averaged_steps": 0 if trainer.ema is None else trainer.ema.steps,
    }

    def write(path: Path) -> None:
        with translate_safetensors_errors():
            save_file(tensors, path, metadata={"facts": json.dumps(described)})

    epochs = len(result.curves)
    draft.write(NAME.format(epoch=epochs), write)
    discard(draft, epochs - 1)


def discard(draft: Draft, epoch: int) -> None:
    """Delete a checkpoint and remove it from the draft."""
    name = NAME.format(epoch=epoch)
    draft.discard(name)
    (draft.content / name).unlink(missing_ok=True)


def checkpoint_path(draft: Draft, epoch: int) -> Path | None:
    """Return the checkpoint written after ``epoch`` epochs; None if there is none."""
    path = draft.content / NAME.format(epoch=epoch)
    return path if path.is_file() else None


def restore(draft: Draft, trainer: Trainer, result: TrainingResult, epochs: int) -> int:
    """Load the newest checkpoint and return the number of finished epochs; 0 without one."""
    finished = next(
        (epoch for epoch in range(epochs, 0, -1) if draft.find_finished(NAME.format(epoch=epoch))),
        0,
    )
    if not finished:
        return 0
    path = draft.content / NAME.format(epoch=finished)
    try:
        _load(path, trainer, result, finished)
    except _UNREADABLE as error:
        raise StoreError(
            f"{path} is not a checkpoint of this training run ({error}). `gsx gc --delete` removes "
            "the draft; then run the command again."
        ) from error
    return finished


def _load(path: Path, trainer: Trainer, result: TrainingResult, finished: int) -> None:
    """Load the checkpoint written after ``finished`` epochs."""
    from safetensors import safe_open

    from gsx.stages.train.trainer import Selected

    with safe_open(path, framework="pt") as file:
        state = json.loads(file.metadata()["facts"])
        typed_values.convert(state, _State)
        arrays: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for prefix, module in _modules(trainer).items():
        module.load_state_dict(_with_prefix(arrays, prefix))
    for prefix, optimizer in _optimizers(trainer).items():
        _restore_optimizer(optimizer, _with_prefix(arrays, prefix))
    _restore_dropout(trainer, arrays["stream"], finished)
    if trainer.ema is not None:
        trainer.ema.steps = state["averaged_steps"]
    result.curves += state["curves"]
    for rule, epoch in state["kept"].items():
        tensors = _with_prefix(arrays, f"kept.{rule}")
        weights = {name: value.numpy() for name, value in tensors.items()}
        result.selected[rule] = Selected(epoch, weights)


def _restore_dropout(trainer: Trainer, state: Tensor, finished: int) -> None:
    """Restore the random stream of dropout.

    The state of another kind of device cannot be loaded; the stream gets a new seed instead.
    """
    stream = trainer.network.dropout.stream
    if state.shape == stream.get_state().shape:
        stream.set_state(state)
    else:
        name = ("train", "dropout", finished)
        stream.manual_seed(torch_stream(trainer.config.seed, *name).initial_seed())


def _modules(trainer: Trainer) -> dict[str, nn.Module]:
    """Return the modules of a checkpoint by the prefix of their arrays."""
    modules: dict[str, nn.Module] = {"net": trainer.network, "learner": trainer.algorithm}
    if trainer.ema is not None:
        modules["averaged"] = trainer.ema.network
    return modules


def _optimizers(trainer: Trainer) -> dict[str, torch.optim.Optimizer]:
    """Return the optimizers of a checkpoint by the prefix of their arrays."""
    own = trainer.algorithm.optimizer
    return {"optimizer": trainer.optimizer, **({} if own is None else {"own": own})}


def _with_prefix(arrays: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the arrays whose names start with a prefix, without it."""
    start = f"{prefix}."
    return {name.removeprefix(start): v for name, v in arrays.items() if name.startswith(start)}


def _restore_optimizer(optimizer: torch.optim.Optimizer, arrays: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Any]] = {}
    for name, value in arrays.items():
        number, key = name.split(".")
        state.setdefault(int(number), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
