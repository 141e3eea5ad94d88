"""A fake GPU for machines without one.

Its tensors stay in CPU memory and have real values; the module records which of them a GPU would
hold. Operations that CUDA rejects raise ``WrongDeviceError``: mixing tensors of both devices, NumPy
on a GPU tensor, random numbers from a generator of the other device. The fake GPU does not model
speed or rounding.
"""

import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from unittest import mock

import torch
import torch._dynamo  # otherwise the first op in a mode imports it, while torch is patched
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
aten = torch.ops.aten
ANY_DEVICE = {aten.copy_, aten._to_copy, aten.set_}
ANY_INDEX = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}
"""Ops whose indices may be on the CPU."""
FACTORIES = {
    *(torch.zeros, torch.ones, torch.empty, torch.full, torch.eye, torch.arange, torch.linspace),
    *(torch.tensor, torch.as_tensor, torch.sparse_csr_tensor, torch.sparse_coo_tensor),
    *(torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal),
}


class WrongDeviceError(RuntimeError):
    """CUDA would reject this operation."""


@contextmanager
def fake_gpu():
    """Make torch report a GPU; yield a counter whose ``moves`` counts copies between devices."""
    devices, counter = DeviceMap(), Counter()
    gpu_generators = {}

    class Generator:
        def __new__(cls, device=CPU, create=torch.Generator):
            generator = create()
            if torch.device(device).type == "cuda":
                gpu_generators[id(generator)] = generator
            return generator

    def from_numpy(array, create=torch.from_numpy):
        return devices.set(create(array), CPU)  # modes do not intercept from_numpy

    @contextmanager
    def intercepted():
        with OpMode(devices), CallMode(devices, gpu_generators, counter):
            yield

    def run(thread, original_run=threading.Thread.run):
        with intercepted():  # modes are local to a thread
            original_run(thread)

    with ExitStack() as stack:
        for owner, name, value in (
            (torch.cuda, "is_available", lambda: True),
            (torch.cuda, "is_bf16_supported", lambda: True),
            (torch, "Generator", Generator),
            (torch, "from_numpy", from_numpy),
            (threading.Thread, "run", run),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        stack.enter_context(intercepted())
        yield counter


class DeviceMap:
    """Device of every storage. Storages that torch creates internally have none and fit both."""

    def __init__(self):
        self.devices = {}

    def get(self, tensor):
        _, device = self.devices.get(_storage(tensor)._cdata, (None, None))
        return device

    def set(self, tensor, device):
        storage = _storage(tensor)
        # A weak reference keeps the address from being reused.
        self.devices[storage._cdata] = (StorageWeakRef(storage), device)
        return tensor


def _storage(tensor):
    if tensor.layout == torch.sparse_csr:
        tensor = tensor.values()
    elif tensor.layout == torch.sparse_coo:
        tensor = tensor._values()
    return tensor.untyped_storage()


def _tensors(*trees):
    return [leaf for leaf in tree_leaves(trees) if isinstance(leaf, torch.Tensor)]


class OpMode(TorchDispatchMode):
    """Intercepts every op, also in backward passes: results of GPU tensors are on the GPU."""

    def __init__(self, devices):
        super().__init__()
        self.devices = devices

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        op, inputs = func.overloadpacket, _tensors(args, kwargs or {})
        input_devices = [self.devices.get(tensor) for tensor in inputs]
        if GPU in input_devices and op not in ANY_DEVICE:
            checked = input_devices[:1] if op in ANY_INDEX else input_devices
            pairs = zip(checked, inputs, strict=False)
            if any(device == CPU and tensor.dim() for device, tensor in pairs):
                shapes = [
                    f"{device} {tuple(tensor.shape)}"
                    for device, tensor in zip(input_devices, inputs, strict=True)
                ]
                raise WrongDeviceError(f"{func} of {', '.join(shapes)}")
        outputs = func(*args, **(kwargs or {}))
        for tensor in _tensors(outputs):
            new = op not in ANY_DEVICE and self.devices.get(tensor) is None
            if new and any(input_devices):
                self.devices.set(tensor, GPU if GPU in input_devices else CPU)
        return outputs


class CallMode(TorchFunctionMode):
    """Intercepts every call with a device argument, and reads of a tensor's device."""

    def __init__(self, devices, gpu_generators, counter):
        super().__init__()
        self.devices, self.gpu_generators, self.counter = devices, gpu_generators, counter

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        device = self.devices.get(args[0]) if args and isinstance(args[0], torch.Tensor) else None
        if func == torch.Tensor.device.__get__:
            return device or CPU
        if func in (torch.Tensor.numpy, torch.Tensor.__array__) and device == GPU:
            raise WrongDeviceError("NumPy cannot read a GPU tensor")
        if func == torch.Tensor.grad.__get__:
            grad = func(*args)
            return grad if grad is None or device is None else self.devices.set(grad, device)
        if func in (torch.Tensor.to, torch.Tensor.cpu, torch.Tensor.cuda):
            return self._move(func, device or CPU, args, kwargs)
        if func in FACTORIES or "device" in kwargs:
            return self._create(func, args, kwargs)
        return func(*args, **kwargs)

    def _move(self, func, source, args, kwargs):
        target, args, kwargs = _requested_device(args, kwargs)
        if func is not torch.Tensor.to:
            target, result = CPU if func is torch.Tensor.cpu else GPU, args[0]
        else:
            others = _tensors(args[1:])
            target = self.devices.get(others[0]) if others else target
            result = func(*args, **kwargs)
        if target in (None, source):
            return self.devices.set(result, source)
        self.counter["moves"] += 1
        return self.devices.set(result.clone(), target)

    def _create(self, func, args, kwargs):
        device, args, kwargs = _requested_device(args, kwargs)
        input_devices = {self.devices.get(tensor) for tensor in _tensors(args)}
        device = device or (GPU if GPU in input_devices else CPU)
        generator = kwargs.get("generator")
        if generator is not None and (id(generator) in self.gpu_generators) != (device == GPU):
            raise WrongDeviceError(
                f"{func.__name__} on {device} with a generator of another device"
            )
        result = func(*args, **kwargs)
        return self.devices.set(result.clone() if _tensors(args) else result, device)


def _requested_device(args, kwargs):
    """Return the device argument of a call, and its arguments with the CPU instead."""
    requested = []

    def replace_device(value):
        if isinstance(value, str) and value.partition(":")[0] in ("cuda", "cpu"):
            value = torch.device(value)
        if isinstance(value, torch.device):
            requested.append(GPU if value.type == "cuda" else CPU)
            return CPU
        return value

    args = tuple(map(replace_device, args))
    kwargs = {
        name: replace_device(value) if name == "device" else value for name, value in kwargs.items()
    }
    return (requested[0] if requested else None), args, kwargs
