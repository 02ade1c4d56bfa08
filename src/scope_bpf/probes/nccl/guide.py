"""What people should know about the probe `nccl`."""

from scope_catalogue.guide import Example, Guide

GUIDE = Guide(
    examples=(
        Example(
            "scope trace nccl -- torchrun --nproc-per-node 8 train.py",
            "collectives and point-to-point of a program's ranks, by function and type",
        ),
        Example(
            "scope trace nccl --lines --where 'late_ns > 1ms' -- torchrun --nproc-per-node 8 train.py",
            "each collective that a rank called 1 ms or more after the first rank",
        ),
        Example(
            "scope trace nccl --mode summary -- torchrun --nproc-per-node 8 train.py",
            "calls and bytes by rank, added up in the kernel",
        ),
    ),
    notes=(
        "It attaches to NCCL's functions in every file that the watched processes map: `libnccl.so.2` of the system or "
        "of a Python environment, also when it is loaded late, and a copy that is linked into a program or into "
        "PyTorch and has its symbols.",
        "Rank, number of ranks and `communicator` are learnt when a communicator is made: `ncclCommInitRank`, "
        "`ncclCommInitRankConfig`, `ncclCommInitRankScalable`, `ncclCommInitAll`, `ncclCommSplit`. `communicator` is "
        "the same for all ranks, so rows of several processes and machines can be joined by it and by `sequence`.",
        "After `ncclCommSplit`, rank and number of ranks are known if all ranks of the communicator that was split are "
        "recorded on this machine; `communicator` and `sequence` are known anyway.",
        "`late_ns` is the delay of a rank's call after the first rank's call of the same collective, among the ranks "
        "on this machine whose rows are recorded. A rank that comes last lets all others wait, mostly on their GPUs.",
        "`bytes` are the elements that the call counts, times their size: of one rank for `ncclAllGather`, "
        "`ncclReduceScatter`, `ncclAlltoAll`, `ncclGather` and `ncclScatter`.",
        "`nccl_wait` has the waits for the stream: calls of `cudaStreamSynchronize` and `cuStreamSynchronize` by a "
        "process that has called NCCL on the same stream since its wait before; and the waits for the device, "
        "`cudaDeviceSynchronize` and `cuCtxSynchronize`, by a process that has called NCCL on any stream. Those have "
        "no `stream`, and count the calls on all of them, also on other devices.",
        "In a group, calls return at once, and `ncclGroupEnd` has the time of all. `ncclGroupStart` has no rows.",
    ),
    limits=(
        "A duration is that of the call on the CPU: NCCL only starts its work on the GPU. When the work is done is not "
        "recorded. A wait is for all work in the stream, also that of other libraries. Waits for events, and for other "
        "streams that wait for NCCL's, as in PyTorch, are not in `nccl_wait`.",
        "Of communicators that were made before the task began, and by `ncclCommShrink` and `ncclCommGrow`, only the "
        "handle is known. In a group, and for a communicator that does not block, `ncclCommSplit` and `ncclCommShrink` "
        "return before NCCL gives the handle: their rows have none, and of such a communicator, too, only the handle "
        "is known.",
        "If `NCCL_COMM_ID` is set, NCCL gives all communicators the same unique id: they have the same `communicator`, "
        "and `late_ns` is right in the first one only.",
        "A process that loads the library while a task runs: SCOPE attaches within milliseconds and misses the calls "
        "before.",
        "The first calls of 16,384 collectives are kept. A rank that is further behind another has no `late_ns`; the "
        "books count these rows as incomplete, and the summary's sum lacks them.",
        "`ncclPutSignal`, `ncclSignal` and `ncclWaitSignal` are not recorded.",
    ),
)
