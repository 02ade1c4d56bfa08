"""The recorded functions of the CUDA runtime and driver, and their arguments.

Arguments are numbered by register: a dim3 takes two. Sources: cuda_runtime_api.h and cuda.h of CUDA 13.0.
"""

from dataclasses import dataclass
from typing import Any

from scope_bpf.catalogue.place import Place, Symbol

RUNTIME, DRIVER = "runtime", "driver"


# Enumerators in bpf/probes/cuda; their values are in the object: enum cuda_memory_kind, copy_kind, cuda_argument.
DEVICE, PINNED, MANAGED = "CUDA_DEVICE", "CUDA_PINNED", "CUDA_MANAGED"
H2D, D2H, D2D, BY_ADDRESS = "COPY_H2D", "COPY_D2H", "COPY_D2D", "COPY_DEFAULT"
DEFAULT_STREAM = "CUDA_DEFAULT_STREAM"

_KEPT = (  # in struct cuda_place
    *("kind", "memory", "copy_kind", "stream", "arguments", "bytes", "rows"),
    *("ptr", "src", "dst", "copy", "device", "pitch", "pooled"),
)


@dataclass(frozen=True)
class CudaFunction:
    """A function: its name, and the numbers of its arguments; -1: no such argument.

    Attributes:
        kind: what the function does: an enumerator of enum cuda_kind.
        rows: number of rows; multiplied by `bytes`.
        ptr: the memory to free or set; for an allocation, where the address is returned.
        memory: the kind of memory that the function allocates or frees.
        copy: the argument with the direction of the copy; if there is none, `copy_kind` is the direction of all calls.
        stream: the stream; DEFAULT_STREAM if the function has no such argument and uses the default stream.
        pooled: the allocated memory does not belong to a context.
        pitch: where an allocation of rows returns the real bytes per row, which replace `bytes`.
        blocks: the function returns when its work is done.
        waits: the function does nothing but wait.
        variants: suffixes of the names for the per-thread default stream.
    """

    name: str
    kind: str = "CUDA_PLAIN"
    bytes: int = -1
    rows: int = -1
    ptr: int = -1
    src: int = -1
    dst: int = -1
    copy: int = -1
    copy_kind: str = "COPY_H2H"
    stream: int | str = -1
    device: int = -1
    memory: str = "CUDA_NO_MEMORY"
    pitch: int = -1
    pooled: bool = False
    blocks: bool = False
    waits: bool = False
    variants: tuple[str, ...] = ()

    @property
    def api(self) -> str:
        """The function's API."""
        return RUNTIME if self.name.startswith(("cuda", "__cuda")) else DRIVER

    @property
    def symbols(self) -> tuple[str, ...]:
        """All names of the function."""
        return (self.name, *(self.name + ending for ending in self.variants))

    @property
    def arguments(self) -> int:
        """Number of arguments to read."""
        launches = {"CUDA_LAUNCH": 8, "CUDA_DRIVER_LAUNCH": 10}
        numbered = (self.bytes, self.rows, self.ptr, self.src, self.dst, self.copy, self.stream, self.device)
        most = max(number for number in numbered if isinstance(number, int))
        return launches.get(self.kind, 1 + max(most, 2))

    @property
    def place(self) -> Place:
        """The place to attach to, with the data for its programs."""
        keep = {name: getattr(self, name) for name in _KEPT}
        return Place(Symbol(self.symbols), "cuda_enter", "cuda_return", keep)


_PTSZ, _PTDS = ("_ptsz",), ("_ptds",)


def _allocate(name: str, memory: str, **arguments: Any) -> CudaFunction:
    return CudaFunction(name, "CUDA_ALLOCATE", ptr=0, memory=memory, **arguments)


def _free(name: str, memory: str, **arguments: Any) -> CudaFunction:
    return CudaFunction(name, "CUDA_FREE", ptr=0, memory=memory, **arguments)


def _copy(name: str, **arguments: Any) -> CudaFunction:
    stream = DEFAULT_STREAM if arguments.get("blocks") else -1
    return CudaFunction(name, "CUDA_COPY", **{"dst": 0, "stream": stream} | arguments)


def _copy_of(name: str, kind: str, **arguments: Any) -> CudaFunction:
    """A copy described by a struct, from which the BPF program makes the arguments."""
    stream = DEFAULT_STREAM if arguments.get("blocks") else -1
    return CudaFunction(name, kind, **{"dst": 0, "src": 1, "bytes": 2, "copy": 3, "stream": stream} | arguments)


FUNCTIONS = (
    # Memory of the runtime
    _allocate("cudaMalloc", DEVICE, bytes=1),
    _allocate("cudaMallocHost", PINNED, bytes=1),
    _allocate("cudaHostAlloc", PINNED, bytes=1),
    _allocate("cudaMallocManaged", MANAGED, bytes=1),
    _allocate("cudaMallocAsync", DEVICE, pooled=True, bytes=1, stream=2, variants=_PTSZ),
    _allocate("cudaMallocFromPoolAsync", DEVICE, pooled=True, bytes=1, stream=3, variants=_PTSZ),
    _allocate("cudaMallocPitch", DEVICE, bytes=2, rows=3, pitch=1),
    _free("cudaFree", DEVICE),
    _free("cudaFreeHost", PINNED),
    CudaFunction("cudaHostRegister", "CUDA_MAP", ptr=0, bytes=1, memory=PINNED),
    _free("cudaHostUnregister", PINNED),
    _free("cudaFreeAsync", DEVICE, stream=1, variants=_PTSZ),
    # Copies of the runtime
    _copy("cudaMemcpy", src=1, bytes=2, copy=3, blocks=True, variants=_PTDS),
    _copy("cudaMemcpyAsync", src=1, bytes=2, copy=3, stream=4, variants=_PTSZ),
    _copy("cudaMemcpy2D", src=2, bytes=4, rows=5, copy=6, blocks=True, variants=_PTDS),
    _copy("cudaMemcpy2DAsync", src=2, bytes=4, rows=5, copy=6, stream=7, variants=_PTSZ),
    _copy("cudaMemcpyPeer", src=2, bytes=4, stream=DEFAULT_STREAM, copy_kind=D2D),
    _copy("cudaMemcpyPeerAsync", src=2, bytes=4, stream=5, copy_kind=D2D),
    CudaFunction("cudaMemset", ptr=0, bytes=2, stream=DEFAULT_STREAM, variants=_PTDS),
    CudaFunction("cudaMemsetAsync", ptr=0, bytes=2, stream=3, variants=_PTSZ),
    # The rest of the runtime
    CudaFunction("cudaSetDevice", "CUDA_SET_DEVICE", device=0),
    CudaFunction("cudaDeviceSynchronize", waits=True),
    CudaFunction("cudaDeviceReset", "CUDA_RESET"),
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
    CudaFunction("cudaLaunchKernel", "CUDA_LAUNCH", variants=_PTSZ),
    CudaFunction("cudaLaunchCooperativeKernel", "CUDA_LAUNCH", variants=_PTSZ),
    CudaFunction("cudaLaunchKernelExC", "CUDA_LAUNCH_EX", variants=_PTSZ),
    # Memory of the driver
    _allocate("cuMemAlloc_v2", DEVICE, bytes=1),
    _allocate("cuMemAllocManaged", MANAGED, bytes=1),
    _allocate("cuMemAllocAsync", DEVICE, pooled=True, bytes=1, stream=2, variants=_PTSZ),
    _allocate("cuMemAllocFromPoolAsync", DEVICE, pooled=True, bytes=1, stream=3, variants=_PTSZ),
    _allocate("cuMemAllocPitch_v2", DEVICE, bytes=2, rows=3, pitch=1),
    _allocate("cuMemAllocHost_v2", PINNED, bytes=1),
    _allocate("cuMemHostAlloc", PINNED, bytes=1),
    _free("cuMemFree_v2", DEVICE),
    _free("cuMemFreeHost", PINNED),
    CudaFunction("cuMemHostRegister_v2", "CUDA_MAP", ptr=0, bytes=1, memory=PINNED),
    _free("cuMemHostUnregister", PINNED),
    _free("cuMemFreeAsync", DEVICE, stream=1, variants=_PTSZ),
    CudaFunction("cuMemCreate", bytes=1),
    CudaFunction("cuMemMap", "CUDA_MAP", ptr=0, bytes=1, memory=DEVICE, pooled=True),
    CudaFunction("cuMemUnmap", "CUDA_UNMAP", ptr=0, bytes=1, memory=DEVICE),
    CudaFunction("cuMemRelease"),
    # Copies of the driver
    _copy("cuMemcpy", src=1, bytes=2, copy_kind=BY_ADDRESS, blocks=True, variants=_PTDS),
    _copy("cuMemcpyAsync", src=1, bytes=2, stream=3, copy_kind=BY_ADDRESS, variants=_PTSZ),
    _copy("cuMemcpyHtoD_v2", src=1, bytes=2, copy_kind=H2D, blocks=True, variants=_PTDS),
    _copy("cuMemcpyHtoDAsync_v2", src=1, bytes=2, stream=3, copy_kind=H2D, variants=_PTSZ),
    _copy("cuMemcpyDtoH_v2", src=1, bytes=2, copy_kind=D2H, blocks=True, variants=_PTDS),
    _copy("cuMemcpyDtoHAsync_v2", src=1, bytes=2, stream=3, copy_kind=D2H, variants=_PTSZ),
    _copy("cuMemcpyDtoD_v2", src=1, bytes=2, copy_kind=D2D, blocks=True, variants=_PTDS),
    _copy("cuMemcpyDtoDAsync_v2", src=1, bytes=2, stream=3, copy_kind=D2D, variants=_PTSZ),
    _copy("cuMemcpyPeer", src=2, bytes=4, stream=DEFAULT_STREAM, copy_kind=D2D, variants=_PTDS),
    _copy("cuMemcpyPeerAsync", src=2, bytes=4, stream=5, copy_kind=D2D, variants=_PTSZ),
    _copy("cuMemcpyHtoA_v2", dst=-1, src=2, bytes=3, copy_kind=H2D, blocks=True, variants=_PTDS),
    _copy("cuMemcpyHtoAAsync_v2", dst=-1, src=2, bytes=3, stream=4, copy_kind=H2D, variants=_PTSZ),
    _copy("cuMemcpyAtoH_v2", bytes=3, copy_kind=D2H, blocks=True, variants=_PTDS),
    _copy("cuMemcpyAtoHAsync_v2", bytes=3, stream=4, copy_kind=D2H, variants=_PTSZ),
    _copy("cuMemcpyDtoA_v2", dst=-1, src=2, bytes=3, copy_kind=D2D, blocks=True, variants=_PTDS),
    _copy("cuMemcpyAtoD_v2", bytes=3, copy_kind=D2D, blocks=True, variants=_PTDS),
    _copy("cuMemcpyAtoA_v2", dst=-1, bytes=4, copy_kind=D2D, blocks=True, variants=_PTDS),
    _copy_of("cuMemcpy2D_v2", "CUDA_COPY_2D", blocks=True, variants=_PTDS),
    _copy_of("cuMemcpy2DUnaligned_v2", "CUDA_COPY_2D", blocks=True, variants=_PTDS),
    _copy_of("cuMemcpy2DAsync_v2", "CUDA_COPY_2D", stream=4, variants=_PTSZ),
    _copy_of("cuMemcpy3D_v2", "CUDA_COPY_3D", blocks=True, variants=_PTDS),
    _copy_of("cuMemcpy3DAsync_v2", "CUDA_COPY_3D", stream=4, variants=_PTSZ),
    # The rest of the driver
    CudaFunction("cuCtxDestroy_v2", "CUDA_DESTROY_CONTEXT"),
    CudaFunction("cuDevicePrimaryCtxReset_v2", "CUDA_RESET", device=0),
    CudaFunction("cuCtxSynchronize", waits=True),
    CudaFunction("cuCtxSynchronize_v2", waits=True),
    CudaFunction("cuStreamSynchronize", stream=0, waits=True, variants=_PTSZ),
    CudaFunction("cuEventSynchronize", waits=True),
    CudaFunction("cuGraphLaunch", stream=1, variants=_PTSZ),
    CudaFunction("cuLaunchKernel", "CUDA_DRIVER_LAUNCH", variants=_PTSZ),
    CudaFunction("cuLaunchCooperativeKernel", "CUDA_DRIVER_LAUNCH", variants=_PTSZ),
    CudaFunction("cuLaunchKernelEx", "CUDA_DRIVER_LAUNCH_EX", variants=_PTSZ),
    # Functions that return handles of kernels; they make no rows
    CudaFunction("__cudaGetKernel", "CUDA_GET_KERNEL"),
    CudaFunction("cudaGetKernel", "CUDA_GET_KERNEL"),
    CudaFunction("cuModuleGetFunction", "CUDA_GET_NAMED"),
    CudaFunction("cuLibraryGetKernel", "CUDA_GET_NAMED"),
    CudaFunction("cuKernelGetFunction", "CUDA_GET_FUNCTION"),
    # Functions that set a thread's context
    CudaFunction("cuCtxCreate_v2", "CUDA_MAKE_CONTEXT", device=2),
    CudaFunction("cuCtxCreate_v3", "CUDA_MAKE_CONTEXT", device=4),
    CudaFunction("cuCtxCreate_v4", "CUDA_MAKE_CONTEXT", device=3),
    CudaFunction("cuCtxSetCurrent", "CUDA_SET_CONTEXT"),
    CudaFunction("cuCtxPushCurrent_v2", "CUDA_SET_CONTEXT"),
    CudaFunction("cuCtxPopCurrent_v2", "CUDA_POP_CONTEXT"),
)
