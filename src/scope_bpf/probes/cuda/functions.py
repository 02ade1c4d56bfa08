"""The functions of the CUDA runtime and driver that are recorded, and what their arguments are.

Arguments are counted in registers: a dim3 takes two. Sources: cuda_runtime_api.h and cuda.h of CUDA 13.0.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

RUNTIME, DRIVER = "runtime", "driver"


class Kind(IntEnum):
    """What a function does: enum cuda_kind in frames.bpf.h."""

    PLAIN = 0
    ALLOCATE = 1
    FREE = 2
    MAP = 3
    UNMAP = 4
    COPY = 5
    COPY_2D = 6
    COPY_3D = 7
    RESET = 8
    DESTROY_CONTEXT = 9
    SET_DEVICE = 10
    LAUNCH = 11
    LAUNCH_EX = 12
    DRIVER_LAUNCH = 13
    DRIVER_LAUNCH_EX = 14
    GET_KERNEL = 15
    GET_NAMED = 16
    GET_FUNCTION = 17
    MAKE_CONTEXT = 18
    SET_CONTEXT = 19
    POP_CONTEXT = 20


class Memory(IntEnum):
    """Kinds of memory: enum cuda_memory_kind in memory.bpf.h."""

    NONE = 0
    DEVICE = 1
    PINNED = 2
    MANAGED = 3


class Copy(IntEnum):
    """Between what a copy copies: enum cudaMemcpyKind, driver_types.h."""

    H2H = 0
    H2D = 1
    D2H = 2
    D2D = 3
    DEFAULT = 4


@dataclass(frozen=True)
class CudaFunction:
    """A function: its name, and the numbers of its arguments; -1: it has no such.

    Attributes:
        rows: multiplies bytes.
        ptr: memory that is freed or set; of an allocation, where its address is returned.
        memory: what it allocates or frees.
        copy: which argument says between what is copied, or `copy_kind` does for all of its calls.
        stream: DEFAULT_STREAM if it takes none and works in the default one.
        pooled: what it allocates is no context's.
        pitch: where an allocation of rows returns the bytes that each has got, in place of `bytes`.
        blocks: it returns when what it does is done.
        waits: that is all it does.
        variants: endings of names for the per-thread default stream.
    """

    name: str
    kind: Kind = Kind.PLAIN
    bytes: int = -1
    rows: int = -1
    ptr: int = -1
    src: int = -1
    dst: int = -1
    copy: int = -1
    copy_kind: int = 0
    stream: int = -1
    device: int = -1
    memory: Memory = Memory.NONE
    pitch: int = -1
    pooled: bool = False
    blocks: bool = False
    waits: bool = False
    variants: tuple[str, ...] = ()

    @property
    def api(self) -> str:
        """Which API it belongs to."""
        return RUNTIME if self.name.startswith(("cuda", "__cuda")) else DRIVER

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every name it is known by."""
        return (self.name, *(self.name + ending for ending in self.variants))

    @property
    def arguments(self) -> int:
        """How many arguments are read."""
        launches = {Kind.LAUNCH: 8, Kind.DRIVER_LAUNCH: 10}
        numbered = (self.bytes, self.rows, self.ptr, self.src, self.dst, self.copy, self.stream, self.device)
        return launches.get(self.kind, 1 + max(*numbered, 2))


DEFAULT_STREAM = -2  # CUDA_DEFAULT_STREAM in frames.bpf.h
_PTSZ, _PTDS = ("_ptsz",), ("_ptds",)


def _allocate(name: str, memory: Memory, **arguments: Any) -> CudaFunction:
    return CudaFunction(name, Kind.ALLOCATE, ptr=0, memory=memory, **arguments)


def _free(name: str, memory: Memory, **arguments: Any) -> CudaFunction:
    return CudaFunction(name, Kind.FREE, ptr=0, memory=memory, **arguments)


def _copy(name: str, **arguments: Any) -> CudaFunction:
    stream = DEFAULT_STREAM if arguments.get("blocks") else -1
    return CudaFunction(name, Kind.COPY, **{"dst": 0, "stream": stream} | arguments)


def _copy_of(name: str, kind: Kind, **arguments: Any) -> CudaFunction:
    """A copy that a struct describes; the arguments are those that the program makes of it."""
    stream = DEFAULT_STREAM if arguments.get("blocks") else -1
    return CudaFunction(name, kind, **{"dst": 0, "src": 1, "bytes": 2, "copy": 3, "stream": stream} | arguments)


FUNCTIONS = (
    # Memory of the runtime
    _allocate("cudaMalloc", Memory.DEVICE, bytes=1),
    _allocate("cudaMallocHost", Memory.PINNED, bytes=1),
    _allocate("cudaHostAlloc", Memory.PINNED, bytes=1),
    _allocate("cudaMallocManaged", Memory.MANAGED, bytes=1),
    _allocate("cudaMallocAsync", Memory.DEVICE, pooled=True, bytes=1, stream=2, variants=_PTSZ),
    _allocate("cudaMallocFromPoolAsync", Memory.DEVICE, pooled=True, bytes=1, stream=3, variants=_PTSZ),
    _allocate("cudaMallocPitch", Memory.DEVICE, bytes=2, rows=3, pitch=1),
    _free("cudaFree", Memory.DEVICE),
    _free("cudaFreeHost", Memory.PINNED),
    CudaFunction("cudaHostRegister", Kind.MAP, ptr=0, bytes=1, memory=Memory.PINNED),
    _free("cudaHostUnregister", Memory.PINNED),
    _free("cudaFreeAsync", Memory.DEVICE, stream=1, variants=_PTSZ),
    # Copies of the runtime
    _copy("cudaMemcpy", src=1, bytes=2, copy=3, blocks=True, variants=_PTDS),
    _copy("cudaMemcpyAsync", src=1, bytes=2, copy=3, stream=4, variants=_PTSZ),
    _copy("cudaMemcpy2D", src=2, bytes=4, rows=5, copy=6, blocks=True, variants=_PTDS),
    _copy("cudaMemcpy2DAsync", src=2, bytes=4, rows=5, copy=6, stream=7, variants=_PTSZ),
    _copy("cudaMemcpyPeer", src=2, bytes=4, stream=DEFAULT_STREAM, copy_kind=Copy.D2D),
    _copy("cudaMemcpyPeerAsync", src=2, bytes=4, stream=5, copy_kind=Copy.D2D),
    CudaFunction("cudaMemset", ptr=0, bytes=2, stream=DEFAULT_STREAM, variants=_PTDS),
    CudaFunction("cudaMemsetAsync", ptr=0, bytes=2, stream=3, variants=_PTSZ),
    # The rest of the runtime
    CudaFunction("cudaSetDevice", Kind.SET_DEVICE, device=0),
    CudaFunction("cudaDeviceSynchronize", waits=True),
    CudaFunction("cudaDeviceReset", Kind.RESET),
    CudaFunction("cudaStreamSynchronize", stream=0, waits=True, variants=_PTSZ),
    CudaFunction("cudaEventSynchronize", waits=True),
    CudaFunction("cudaStreamCreate"),
    CudaFunction("cudaStreamCreateWithFlags"),
    CudaFunction("cudaStreamCreateWithPriority"),
    CudaFunction("cudaStreamDestroy", stream=0),
    CudaFunction("cudaGraphLaunch", stream=1, variants=_PTSZ),
    CudaFunction("cudaGraphInstantiate"),
    CudaFunction("cudaGraphInstantiateWithFlags"),
    CudaFunction("cudaGraphInstantiateWithParams", variants=_PTSZ),
    CudaFunction("cudaLaunchKernel", Kind.LAUNCH, variants=_PTSZ),
    CudaFunction("cudaLaunchCooperativeKernel", Kind.LAUNCH, variants=_PTSZ),
    CudaFunction("cudaLaunchKernelExC", Kind.LAUNCH_EX, variants=_PTSZ),
    # Memory of the driver
    _allocate("cuMemAlloc_v2", Memory.DEVICE, bytes=1),
    _allocate("cuMemAllocManaged", Memory.MANAGED, bytes=1),
    _allocate("cuMemAllocAsync", Memory.DEVICE, pooled=True, bytes=1, stream=2, variants=_PTSZ),
    _allocate("cuMemAllocFromPoolAsync", Memory.DEVICE, pooled=True, bytes=1, stream=3, variants=_PTSZ),
    _allocate("cuMemAllocPitch_v2", Memory.DEVICE, bytes=2, rows=3, pitch=1),
    _allocate("cuMemAllocHost_v2", Memory.PINNED, bytes=1),
    _allocate("cuMemHostAlloc", Memory.PINNED, bytes=1),
    _free("cuMemFree_v2", Memory.DEVICE),
    _free("cuMemFreeHost", Memory.PINNED),
    CudaFunction("cuMemHostRegister_v2", Kind.MAP, ptr=0, bytes=1, memory=Memory.PINNED),
    _free("cuMemHostUnregister", Memory.PINNED),
    _free("cuMemFreeAsync", Memory.DEVICE, stream=1, variants=_PTSZ),
    CudaFunction("cuMemCreate", bytes=1),
    CudaFunction("cuMemMap", Kind.MAP, ptr=0, bytes=1, memory=Memory.DEVICE, pooled=True),
    CudaFunction("cuMemUnmap", Kind.UNMAP, ptr=0, bytes=1, memory=Memory.DEVICE),
    CudaFunction("cuMemRelease"),
    # Copies of the driver
    _copy("cuMemcpy", src=1, bytes=2, copy_kind=Copy.DEFAULT, blocks=True, variants=_PTDS),
    _copy("cuMemcpyAsync", src=1, bytes=2, stream=3, copy_kind=Copy.DEFAULT, variants=_PTSZ),
    _copy("cuMemcpyHtoD_v2", src=1, bytes=2, copy_kind=Copy.H2D, blocks=True, variants=_PTDS),
    _copy("cuMemcpyHtoDAsync_v2", src=1, bytes=2, stream=3, copy_kind=Copy.H2D, variants=_PTSZ),
    _copy("cuMemcpyDtoH_v2", src=1, bytes=2, copy_kind=Copy.D2H, blocks=True, variants=_PTDS),
    _copy("cuMemcpyDtoHAsync_v2", src=1, bytes=2, stream=3, copy_kind=Copy.D2H, variants=_PTSZ),
    _copy("cuMemcpyDtoD_v2", src=1, bytes=2, copy_kind=Copy.D2D, blocks=True, variants=_PTDS),
    _copy("cuMemcpyDtoDAsync_v2", src=1, bytes=2, stream=3, copy_kind=Copy.D2D, variants=_PTSZ),
    _copy("cuMemcpyPeer", src=2, bytes=4, stream=DEFAULT_STREAM, copy_kind=Copy.D2D, variants=_PTDS),
    _copy("cuMemcpyPeerAsync", src=2, bytes=4, stream=5, copy_kind=Copy.D2D, variants=_PTSZ),
    _copy("cuMemcpyHtoA_v2", dst=-1, src=2, bytes=3, copy_kind=Copy.H2D, blocks=True, variants=_PTDS),
    _copy("cuMemcpyHtoAAsync_v2", dst=-1, src=2, bytes=3, stream=4, copy_kind=Copy.H2D, variants=_PTSZ),
    _copy("cuMemcpyAtoH_v2", bytes=3, copy_kind=Copy.D2H, blocks=True, variants=_PTDS),
    _copy("cuMemcpyAtoHAsync_v2", bytes=3, stream=4, copy_kind=Copy.D2H, variants=_PTSZ),
    _copy("cuMemcpyDtoA_v2", dst=-1, src=2, bytes=3, copy_kind=Copy.D2D, blocks=True, variants=_PTDS),
    _copy("cuMemcpyAtoD_v2", bytes=3, copy_kind=Copy.D2D, blocks=True, variants=_PTDS),
    _copy("cuMemcpyAtoA_v2", dst=-1, bytes=4, copy_kind=Copy.D2D, blocks=True, variants=_PTDS),
    _copy_of("cuMemcpy2D_v2", Kind.COPY_2D, blocks=True, variants=_PTDS),
    _copy_of("cuMemcpy2DUnaligned_v2", Kind.COPY_2D, blocks=True, variants=_PTDS),
    _copy_of("cuMemcpy2DAsync_v2", Kind.COPY_2D, stream=4, variants=_PTSZ),
    _copy_of("cuMemcpy3D_v2", Kind.COPY_3D, blocks=True, variants=_PTDS),
    _copy_of("cuMemcpy3DAsync_v2", Kind.COPY_3D, stream=4, variants=_PTSZ),
    # The rest of the driver
    CudaFunction("cuCtxDestroy_v2", Kind.DESTROY_CONTEXT),
    CudaFunction("cuDevicePrimaryCtxReset_v2", Kind.RESET, device=0),
    CudaFunction("cuCtxSynchronize", waits=True),
    CudaFunction("cuCtxSynchronize_v2", waits=True),
    CudaFunction("cuStreamSynchronize", stream=0, waits=True, variants=_PTSZ),
    CudaFunction("cuEventSynchronize", waits=True),
    CudaFunction("cuGraphLaunch", stream=1, variants=_PTSZ),
    CudaFunction("cuLaunchKernel", Kind.DRIVER_LAUNCH, variants=_PTSZ),
    CudaFunction("cuLaunchCooperativeKernel", Kind.DRIVER_LAUNCH, variants=_PTSZ),
    CudaFunction("cuLaunchKernelEx", Kind.DRIVER_LAUNCH_EX, variants=_PTSZ),
    # What gives out handles of kernels; no rows of their own
    CudaFunction("__cudaGetKernel", Kind.GET_KERNEL),
    CudaFunction("cudaGetKernel", Kind.GET_KERNEL),
    CudaFunction("cuModuleGetFunction", Kind.GET_NAMED),
    CudaFunction("cuLibraryGetKernel", Kind.GET_NAMED),
    CudaFunction("cuKernelGetFunction", Kind.GET_FUNCTION),
    # What makes a context a thread's
    CudaFunction("cuCtxCreate_v2", Kind.MAKE_CONTEXT, device=2),
    CudaFunction("cuCtxCreate_v3", Kind.MAKE_CONTEXT, device=4),
    CudaFunction("cuCtxCreate_v4", Kind.MAKE_CONTEXT, device=3),
    CudaFunction("cuCtxSetCurrent", Kind.SET_CONTEXT),
    CudaFunction("cuCtxPushCurrent_v2", Kind.SET_CONTEXT),
    CudaFunction("cuCtxPopCurrent_v2", Kind.POP_CONTEXT),
)


def descriptors(dtype: np.dtype[Any], count: int) -> np.ndarray[Any, np.dtype[Any]]:
    """The functions as `cuda_functions` in frames.bpf.h holds them; shape (count,)."""
    table = np.zeros(count, dtype)
    for number, function in enumerate(FUNCTIONS):
        for name in dtype.names or ():
            table[number][name] = getattr(function, name)
    return table
