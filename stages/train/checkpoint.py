"""A training run that was stopped goes on from its last finished epoch, to the same bytes.

Where it goes on with another device, bytes are others, as they are from device to device.
A checkpoint is a unit of the draft that nobody asks for at the end, so it is never published.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gsx.stages.nn.training_loop import torch_stream
from gsx.storage.artifacts.draft import Draft

if TYPE_CHECKING:
    from gsx.stages.train.trainer import Fitted, Steps

NAME = "checkpoint-{epoch:05}.safetensors"


def save(draft: Draft, steps: Steps, fitted: Fitted) -> None:
    """Write all that the next epoch depends on, and give up the checkpoint before."""
    from safetensors.torch import save_file

    arrays: dict[str, Tensor] = {}
    for part, net in _nets(steps).items():
        arrays |= {f"{part}.{name}": value for name, value in net.state_dict().items()}
    for part, optimizer in _optimizers(steps).items():
        for number, state in optimizer.state_dict()["state"].items():
            arrays |= {f"{part}.{number}.{name}": value for name, value in state.items()}
    arrays["stream"] = steps.net.dropout.stream.get_state()
    for rule, kept in fitted.kept.items():
        values = {name: torch.from_numpy(value) for name, value in kept.weights.items()}
        arrays |= {f"kept.{rule}.{name}": value for name, value in values.items()}
    plain = {name: value.detach().cpu().clone().contiguous() for name, value in arrays.items()}
    facts = {
        "curves": fitted.curves,
        "kept": {rule: kept.epoch for rule, kept in fitted.kept.items()},
        "averaged_steps": 0 if steps.averaged is None else steps.averaged.steps,
    }

    def write(path: Path) -> None:
        save_file(plain, path, metadata={"facts": json.dumps(facts)})

    done = len(fitted.curves)
    draft.write(NAME.format(epoch=done), write)
    forget(draft, done - 1)


def forget(draft: Draft, epoch: int) -> None:
    """Give up a checkpoint; its file goes when the draft is sealed, at the latest."""
    name = NAME.format(epoch=epoch)
    draft.forget(name)
    (draft.content / name).unlink(missing_ok=True)


def place(draft: Draft, epoch: int) -> Path | None:
    """Return the checkpoint written after ``epoch`` epochs, if there is one."""
    path = draft.content / NAME.format(epoch=epoch)
    return path if path.is_file() else None


def restore(draft: Draft, steps: Steps, fitted: Fitted, epochs: int) -> int:
    """Take up the newest checkpoint of an earlier run, if there is one; return epochs done."""
    from safetensors import safe_open

    from gsx.stages.train.trainer import Kept

    done = next(
        (epoch for epoch in range(epochs, 0, -1) if draft.finished(NAME.format(epoch=epoch))), 0
    )
    if not done:
        return 0
    with safe_open(draft.content / NAME.format(epoch=done), framework="pt") as file:
        facts = json.loads(file.metadata()["facts"])
        arrays: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for part, net in _nets(steps).items():
        net.load_state_dict(_below(arrays, part))
    for part, optimizer in _optimizers(steps).items():
        _restore_optimizer(optimizer, _below(arrays, part))
    _restore_stream(steps, arrays["stream"], done)
    if steps.averaged is not None:
        steps.averaged.steps = facts["averaged_steps"]
    fitted.curves += facts["curves"]
    for rule, epoch in facts["kept"].items():
        weights = {name: value.numpy() for name, value in _below(arrays, f"kept.{rule}").items()}
        fitted.kept[rule] = Kept(epoch, weights)
    return done


def _restore_stream(steps: Steps, state: Tensor, done: int) -> None:
    """Take up the stream of dropout; one of another kind of device cannot be, and starts anew."""
    stream = steps.net.dropout.stream
    if state.shape == stream.get_state().shape:
        stream.set_state(state)
    else:
        name = ("train", "dropout", done)
        stream.manual_seed(torch_stream(steps.config.seed, *name).initial_seed())


def _nets(steps: Steps) -> dict[str, nn.Module]:
    nets: dict[str, nn.Module] = {"net": steps.net, "learner": steps.learner}
    if steps.averaged is not None:
        nets["averaged"] = steps.averaged.net
    return nets


def _optimizers(steps: Steps) -> dict[str, torch.optim.Optimizer]:
    own = {} if steps.own is None else {"own": steps.own}
    return {"optimizer": steps.optimizer, **own}


def _below(arrays: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """Return the arrays of one part, without its name."""
    before = f"{part}."
    return {name.removeprefix(before): v for name, v in arrays.items() if name.startswith(before)}


def _restore_optimizer(optimizer: torch.optim.Optimizer, arrays: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Any]] = {}
    for name, value in arrays.items():
        number, key = name.split(".")
        state.setdefault(int(number), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
