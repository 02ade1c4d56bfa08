"""The recorded functions of NCCL, and their arguments. Source: nccl.h of NCCL 2.32; they are the same in older ones.

Those of CUDA that wait: cuda_runtime_api.h and cuda.h of CUDA 13.0.
"""

from dataclasses import dataclass
from typing import Any

from scope_bpf.catalogue.place import Place, Symbol

_KEPT = ("kind", "arguments", "count", "dtype", "op", "root", "peer", "comm", "stream")  # in struct nccl_place

# ncclResult_t in nccl.h, by number
RESULTS = (
    *("ncclSuccess", "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError", "ncclInvalidArgument"),
    *("ncclInvalidUsage", "ncclRemoteError", "ncclInProgress", "ncclTimeout"),
)


@dataclass(frozen=True)
class NcclFunction:
    """A function: its name, and the numbers of its arguments; -1: no such argument.

    Attributes:
        kind: what the function does: an enumerator of enum nccl_kind.
        variants: other names of the function.
        comm: the communicator; of a function that makes one, where its handle is returned.
    """

    name: str
    kind: str = "NCCL_PLAIN"
    count: int = -1
    dtype: int = -1
    op: int = -1
    root: int = -1
    peer: int = -1
    comm: int = -1
    stream: int = -1
    variants: tuple[str, ...] = ()

    @property
    def arguments(self) -> int:
        """Number of arguments to read."""
        return 1 + max(self.comm, self.stream, 4)  # an initialisation has five

    @property
    def place(self) -> Place:
        """The place to attach to, with the data for its programs."""
        keep = {name: getattr(self, name) for name in _KEPT}
        return Place(Symbol((self.name, *self.variants)), "nccl_enter", "nccl_return", keep)


def _collectives(name: str, **arguments: Any) -> tuple[NcclFunction, NcclFunction]:
    """A collective, and its variant with a configuration as last argument (since 2.32)."""
    plain, configured = (NcclFunction(name + end, "NCCL_COLLECTIVE", **arguments) for end in ("", "Config"))
    return plain, configured


FUNCTIONS = (
    *_collectives("ncclAllReduce", count=2, dtype=3, op=4, comm=5, stream=6),
    *_collectives("ncclReduceScatter", count=2, dtype=3, op=4, comm=5, stream=6),
    *_collectives("ncclReduce", count=2, dtype=3, op=4, root=5, comm=6, stream=7),
    *_collectives("ncclAllGather", count=2, dtype=3, comm=4, stream=5),
    *_collectives("ncclAlltoAll", count=2, dtype=3, comm=4, stream=5),
    *_collectives("ncclBroadcast", count=2, dtype=3, root=4, comm=5, stream=6),
    *_collectives("ncclGather", count=2, dtype=3, root=4, comm=5, stream=6),
    *_collectives("ncclScatter", count=2, dtype=3, root=4, comm=5, stream=6),
    NcclFunction("ncclBcast", "NCCL_COLLECTIVE", count=1, dtype=2, root=3, comm=4, stream=5),
    NcclFunction("ncclSend", "NCCL_POINT", count=1, dtype=2, peer=3, comm=4, stream=5),
    NcclFunction("ncclRecv", "NCCL_POINT", count=1, dtype=2, peer=3, comm=4, stream=5),
    # Communicators
    NcclFunction("ncclCommInitRank", "NCCL_INIT_RANK", comm=0),
    NcclFunction("ncclCommInitRankConfig", "NCCL_INIT_RANK", comm=0),
    NcclFunction("ncclCommInitRankScalable", "NCCL_INIT_SCALABLE", comm=0),
    NcclFunction("ncclCommInitAll", "NCCL_INIT_ALL"),
    NcclFunction("ncclCommSplit", "NCCL_SPLIT", comm=3),
    NcclFunction("ncclCommShrink", "NCCL_INIT_OTHER", comm=3),
    NcclFunction("ncclCommGrow", "NCCL_INIT_OTHER", comm=4),
    NcclFunction("ncclCommFinalize", comm=0),
    NcclFunction("ncclCommRevoke", comm=0),
    NcclFunction("ncclCommDestroy", "NCCL_END", comm=0),
    NcclFunction("ncclCommAbort", "NCCL_END", comm=0),
    # Groups
    NcclFunction("ncclGroupEnd", "NCCL_GROUP_END"),
    NcclFunction("ncclGroupSimulateEnd", "NCCL_GROUP_END"),
    # Waits for a stream, or for all
    NcclFunction("cudaStreamSynchronize", "NCCL_WAIT", stream=0, variants=("cudaStreamSynchronize_ptsz",)),
    NcclFunction("cuStreamSynchronize", "NCCL_WAIT", stream=0, variants=("cuStreamSynchronize_ptsz",)),
    NcclFunction("cudaDeviceSynchronize", "NCCL_WAIT_ALL"),
    NcclFunction("cuCtxSynchronize", "NCCL_WAIT_ALL", variants=("cuCtxSynchronize_v2",)),
    # These make no rows
    NcclFunction("ncclGroupStart", "NCCL_GROUP_START"),
    NcclFunction("ncclGetUniqueId", "NCCL_GET_ID"),
)
