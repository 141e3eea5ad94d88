"""A GPU that is only pretended, for machines without one.

Its tensors stay in the memory of the CPU, so they have true values, and it is noted which of them a
GPU would hold. What CUDA would refuse is refused: an op on tensors of both, NumPy on a tensor of
the GPU, numbers drawn from a stream of the other device. How fast a GPU is, and how it rounds, this
does not tell.
"""

import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from unittest import mock

import torch
import torch._dynamo  # else the first op that a mode sees imports it, and meets what is patched
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
aten = torch.ops.aten
ANY_DEVICE = {aten.copy_, aten._to_copy, aten.set_}
ANY_INDEX = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}
"""Ops whose indices may be on the CPU."""
MAKERS = {
    *(torch.zeros, torch.ones, torch.empty, torch.full, torch.eye, torch.arange, torch.linspace),
    *(torch.tensor, torch.as_tensor, torch.sparse_csr_tensor, torch.sparse_coo_tensor),
    *(torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal),
}


class WrongDeviceError(RuntimeError):
    """CUDA would refuse this."""


@contextmanager
def pretended_gpu():
    """Let torch have a GPU; yield a counter whose ``moves`` are tensors copied to or from it."""
    places, counted = Places(), Counter()
    streams = {}

    class Generator:
        def __new__(cls, device=CPU, make=torch.Generator):
            made = make()
            if torch.device(device).type == "cuda":
                streams[id(made)] = made
            return made

    def from_numpy(array, make=torch.from_numpy):
        return places.put(make(array), CPU)  # no mode sees it

    @contextmanager
    def watched():
        with Ops(places), Calls(places, streams, counted):
            yield

    def run(thread, plain=threading.Thread.run):
        with watched():  # modes are entered in every thread by itself
            plain(thread)

    with ExitStack() as stack:
        for owner, name, value in (
            (torch.cuda, "is_available", lambda: True),
            (torch.cuda, "is_bf16_supported", lambda: True),
            (torch, "Generator", Generator),
            (torch, "from_numpy", from_numpy),
            (threading.Thread, "run", run),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        stack.enter_context(watched())
        yield counted


class Places:
    """Which memory is whose; what torch made for itself is nobody's, and fits everywhere."""

    def __init__(self):
        self.known = {}

    def of(self, tensor):
        _, place = self.known.get(_memory(tensor)._cdata, (None, None))
        return place

    def put(self, tensor, place):
        memory = _memory(tensor)
        # While a reference to it is held, however weak, nothing else gets its address.
        self.known[memory._cdata] = (StorageWeakRef(memory), place)
        return tensor


def _memory(tensor):
    if tensor.layout == torch.sparse_csr:
        tensor = tensor.values()
    elif tensor.layout == torch.sparse_coo:
        tensor = tensor._values()
    return tensor.untyped_storage()


def _tensors(*parts):
    return [leaf for leaf in tree_leaves(parts) if isinstance(leaf, torch.Tensor)]


class Ops(TorchDispatchMode):
    """Sees every op, those of backward passes too: what comes of a GPU's tensors is the GPU's."""

    def __init__(self, places):
        super().__init__()
        self.places = places

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        op, given = func.overloadpacket, _tensors(args, kwargs or {})
        where = [self.places.of(each) for each in given]
        if GPU in where and op not in ANY_DEVICE:
            asked = zip(where[:1] if op in ANY_INDEX else where, given, strict=False)
            if any(place == CPU and each.dim() for place, each in asked):
                shapes = [
                    f"{place} {tuple(t.shape)}" for place, t in zip(where, given, strict=True)
                ]
                raise WrongDeviceError(f"{func} of {', '.join(shapes)}")
        out = func(*args, **(kwargs or {}))
        for each in _tensors(out):
            if op not in ANY_DEVICE and any(where) and self.places.of(each) is None:
                self.places.put(each, GPU if GPU in where else CPU)
        return out


class Calls(TorchFunctionMode):
    """Sees every call that names a device, and what asks for the device of a tensor."""

    def __init__(self, places, streams, counted):
        super().__init__()
        self.places, self.streams, self.counted = places, streams, counted

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        place = self.places.of(args[0]) if args and isinstance(args[0], torch.Tensor) else None
        if func == torch.Tensor.device.__get__:
            return place or CPU
        if func in (torch.Tensor.numpy, torch.Tensor.__array__) and place == GPU:
            raise WrongDeviceError("NumPy cannot see a tensor of the GPU")
        if func == torch.Tensor.grad.__get__:
            grad = func(*args)
            return grad if grad is None or place is None else self.places.put(grad, place)
        if func in (torch.Tensor.to, torch.Tensor.cpu, torch.Tensor.cuda):
            return self._moved(func, place or CPU, args, kwargs)
        if func in MAKERS or "device" in kwargs:
            return self._made(func, args, kwargs)
        return func(*args, **kwargs)

    def _moved(self, func, before, args, kwargs):
        device, args, kwargs = _named(args, kwargs)
        if func is not torch.Tensor.to:
            device, out = CPU if func is torch.Tensor.cpu else GPU, args[0]
        else:
            other = _tensors(args[1:])
            device = self.places.of(other[0]) if other else device
            out = func(*args, **kwargs)
        if device in (None, before):
            return self.places.put(out, before)
        self.counted["moves"] += 1
        return self.places.put(out.clone(), device)

    def _made(self, func, args, kwargs):
        device, args, kwargs = _named(args, kwargs)
        parts = {self.places.of(each) for each in _tensors(args)}
        place = device or (GPU if GPU in parts else CPU)
        stream = kwargs.get("generator")
        if stream is not None and (id(stream) in self.streams) != (place == GPU):
            raise WrongDeviceError(f"{func.__name__} on {place} from a stream of another device")
        out = func(*args, **kwargs)
        return self.places.put(out.clone() if _tensors(args) else out, place)


def _named(args, kwargs):
    """Return the device that a call names, and its arguments with one that is there."""
    found = []

    def real(value):
        if isinstance(value, str) and value.partition(":")[0] in ("cuda", "cpu"):
            value = torch.device(value)
        if isinstance(value, torch.device):
            found.append(GPU if value.type == "cuda" else CPU)
            return CPU
        return value

    args = tuple(map(real, args))
    kwargs = {name: real(value) if name == "device" else value for name, value in kwargs.items()}
    return (found[0] if found else None), args, kwargs
