"""What the bytes of an object are: tensors, arrays, buffers, DLPack (docs/python.md, "Memory")."""

from __future__ import annotations

import ctypes
import re
import sys
from typing import Any, List, NamedTuple, Tuple


class Layout(NamedTuple):
    """Where an object's elements lie. ``owner`` keeps them alive."""

    address: int
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    itemsize: int
    readonly: bool
    device: bool
    owner: Any

    @property
    def nbytes(self) -> int:
        size = self.itemsize
        for extent in self.shape:
            size *= extent
        return size


class Runs(NamedTuple):
    """The same as runs of bytes that lie together: the memory from ``address`` on, ``span`` bytes long, holds them."""

    address: int
    span: int
    first: int
    run: int
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]


def loaded_torch() -> Any:
    """torch, if the program uses it; None also while another thread is in the middle of importing it: nobody has a tensor yet."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "Tensor") and hasattr(getattr(torch, "cuda", None), "current_stream") else None


class Exported(NamedTuple):
    """An object, and that by which it gave its memory away, which may be what keeps it: a capsule of DLPack, an interface's dict."""

    by: Any
    through: Any


def layout(thing: Any) -> Layout:
    """Asks an object for its memory, by the first way of the table that it has.

    Raises TypeError when it has none.
    """
    torch = loaded_torch()
    if torch is not None and isinstance(thing, torch.Tensor):
        return _of_torch(torch, thing)
    if isinstance(thing, (list, tuple)):
        raise TypeError("a %s has no memory of its own: register its parts, or transfer them as one list, without lists in it" % type(thing).__name__)
    if isinstance(thing, dict):
        raise TypeError("a %s has no memory of its own: register its values, or transfer list(it.values()), in an order that both sides know" % type(thing).__name__)
    interface = getattr(thing, "__cuda_array_interface__", None)
    if interface is not None:
        return _of_interface(thing, interface, True)
    interface = getattr(thing, "__array_interface__", None)
    # That of a NumPy scalar is the interface of a copy, which is gone when the interface is; its buffer is its own memory.
    if interface is not None and "__ref" not in interface and isinstance(interface.get("data"), tuple):
        return _of_interface(thing, interface, False)
    try:
        view = memoryview(thing)
    except TypeError:
        pass
    else:
        return _of_buffer(view)
    if hasattr(thing, "__dlpack__"):
        return _of_dlpack(thing)
    raise TypeError(
        "%s has no memory that can be registered: it needs __cuda_array_interface__, __array_interface__, the buffer "
        "protocol or DLPack" % type(thing).__name__
    )


def runs(of: Layout) -> Runs:
    """Joins what lies together."""
    if 0 in of.shape:
        return Runs(of.address, 0, 0, 0, (), ())
    run = of.itemsize
    dimensions = [(n, s) for n, s in zip(of.shape, of.strides) if n > 1]
    while dimensions and dimensions[-1][1] == run:
        run *= dimensions.pop()[0]
    merged: List[Tuple[int, int]] = []  # from the inside out
    for n, s in reversed(dimensions):
        if merged and merged[-1][1] * merged[-1][0] == s:
            merged[-1] = (merged[-1][0] * n, merged[-1][1])
        else:
            merged.append((n, s))
    merged.reverse()
    low = sum(s * (n - 1) for n, s in merged if s < 0)
    high = sum(s * (n - 1) for n, s in merged if s > 0)
    return Runs(
        of.address + low, high - low + run, -low, run, tuple(n for n, _ in merged), tuple(s for _, s in merged)
    )


def check_target(of: Layout) -> None:
    """Raises BufferError unless every element can be written, each at a place of its own."""
    if of.readonly:
        raise BufferError("this %s is read-only: it cannot be the target of a transfer" % _kind(of))
    if any(s == 0 and n > 1 for n, s in zip(of.shape, of.strides)):
        raise BufferError("elements of this %s share memory (a stride is 0): it cannot be the target of a transfer" % _kind(of))


def _kind(of: Layout) -> str:
    """The name of an object's type."""
    owner = of.owner.by if isinstance(of.owner, Exported) else of.owner
    return type(owner.obj if isinstance(owner, memoryview) else owner).__name__


def _of_torch(torch: Any, tensor: Any) -> Layout:
    if getattr(tensor, "is_nested", False):
        raise TypeError("a nested tensor has one piece of memory for each of its parts: transfer the list of unbind()")
    if tensor.layout != torch.strided:
        raise TypeError("a tensor of layout %s: only strided ones have one piece of memory; take its parts, as values()" % tensor.layout)
    if tensor.is_conj() or tensor.is_neg():
        raise TypeError("this tensor's memory does not hold its values yet: call resolve_conj() and resolve_neg()")
    kind = tensor.device.type
    if kind not in ("cpu", "cuda"):
        raise TypeError("a tensor on %s: memory of CPUs and of CUDA (or ROCm) GPUs can be registered" % tensor.device)
    size = tensor.element_size()
    address = tensor.data_ptr()
    if not address and tensor.numel():
        raise TypeError(
            "a %s of %s without memory of its own: take what it stands for (full_tensor(), to_local(), or outside of the mode that made it), or fill "
            "its storage first" % (type(tensor).__name__, tuple(tensor.shape))
        )
    return Layout(
        address,
        tuple(tensor.shape),
        tuple(s * size for s in tensor.stride()),
        size,
        False,
        kind == "cuda",
        tensor.detach(),
    )


_OBJECTS = "an array of Python objects holds addresses, which mean nothing to a peer"


def _of_interface(thing: Any, interface: Any, device: bool) -> Layout:
    typestr = interface["typestr"]
    if typestr[1] == "O" or getattr(getattr(thing, "dtype", None), "hasobject", False):
        raise TypeError(_OBJECTS)
    size = int(typestr[2:].split("[")[0])  # of times a unit follows
    if typestr[1] == "U":
        size *= 4
    shape = tuple(interface["shape"])
    address, readonly = interface["data"]
    return Layout(
        address or 0,
        shape,
        tuple(interface.get("strides") or _contiguous(shape, size)),
        size,
        bool(readonly),
        device,
        thing if device else Exported(thing, interface),
    )


def _contiguous(shape: Tuple[int, ...], size: int) -> Tuple[int, ...]:
    strides = []
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_STRIDED_READ_ONLY = 0x18  # PyBUF_STRIDES


def _of_buffer(view: memoryview) -> Layout:
    """The view stays the owner: while it lives the object cannot be resized or closed."""
    if view.suboffsets:
        raise TypeError("a buffer of pointers (with suboffsets) has no piece of memory of its own")
    if "O" in re.sub(":[^:]*:", "", view.format):  # the names of fields stand between colons
        raise TypeError(_OBJECTS)
    buffer = _PyBuffer()
    # Reads the address, which memoryview does not tell; the view itself goes on holding the buffer.
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(buffer), _STRIDED_READ_ONLY)
    address = buffer.buf or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return Layout(
        address, tuple(view.shape or ()), tuple(view.strides or ()), view.itemsize, view.readonly, False, view
    )


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _DLVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


_HOST, _CUDA, _CUDA_HOST, _ROCM, _ROCM_HOST, _CUDA_MANAGED = 1, 2, 3, 10, 11, 13


def _of_dlpack(thing: Any) -> Layout:
    """The capsule is kept unused, which keeps the memory alive; its destructor gives it back."""
    try:
        capsule = thing.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = thing.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype = ctypes.c_char_p
    name.argtypes = [ctypes.py_object]
    # JAX's arrays are never written to, and the old form cannot say so.
    readonly = type(thing).__module__.split(".")[0] in ("jax", "jaxlib")
    if name(capsule) == b"dltensor_versioned":
        managed = _DLVersioned.from_address(pointer(capsule, b"dltensor_versioned"))
        tensor, readonly = managed.tensor, readonly or bool(managed.flags & 1)
    else:
        tensor = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    if tensor.device_type not in (_HOST, _CUDA, _CUDA_HOST, _ROCM, _ROCM_HOST, _CUDA_MANAGED):
        raise TypeError("DLPack memory of device type %d: that of hosts and of CUDA (or ROCm) GPUs can be registered" % tensor.device_type)
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    bits = tensor.bits * tensor.lanes
    if bits % 8:
        raise TypeError("elements of %d bits do not lie on bytes of their own" % bits)
    size = bits // 8
    strides = (
        tuple(tensor.strides[i] * size for i in range(tensor.ndim)) if tensor.strides else _contiguous(shape, size)
    )
    device = tensor.device_type in (_CUDA, _ROCM, _CUDA_MANAGED)
    return Layout((tensor.data or 0) + tensor.byte_offset, shape, strides, size, readonly, device, Exported(thing, capsule))
