"""What people should know about the probe `cuda`."""

from scope_catalogue.guide import Example, Guide

GUIDE = Guide(
    examples=(
        Example(
            "scope trace cuda -- ./program",
            "calls, launches by kernel name, copies, and memory that is not freed",
        ),
        Example(
            "scope trace cuda --perfetto /tmp/cuda.pftrace -- ./program",
            "launches, copies, waits and memory on one timeline by thread, device and stream",
        ),
        Example(
            "scope trace cuda --flamegraph /tmp/launches.svg -- ./program",
            "a flame graph of the code that launches kernels",
        ),
    ),
    notes=(
        "It needs no GPU tools, and no library in the program. It attaches to CUDA's functions in every file that "
        "the watched processes map: `libcudart.so` of any version, the runtime that `nvcc` links into a program, "
        "and `libcuda.so.1`.",
        "Kernels have their names in stripped libraries, too: SCOPE reads them from the code that registers the "
        "kernels (x86-64). The column `name_source` says where a name comes from: docs/cuda-names.md.",
        "`scope leaks` shows the stacks whose memory is not freed yet; `scope states cuda_memory` shows the memory "
        "of each process.",
        "Memory freed by `cuCtxDestroy`, `cudaDeviceReset`, an exec or the end of the process is an implicit free, "
        "not a leak.",
    ),
    limits=(
        "A duration is that of the call on the CPU: a launch returns before its kernel has run. When a kernel runs "
        "on the GPU is not recorded.",
        "A process that starts, or loads the runtime, while a task runs: SCOPE attaches within milliseconds and "
        "misses the calls before. It misses nothing of files that another process has mapped before, of installed "
        "libraries (`ldconfig -p`), and of libraries that a command of `scope trace` is linked with.",
        "A stripped program with the runtime linked in: SCOPE sees launches by `<<<>>>` (CUDA 13, x86-64) and "
        "driver calls, and logs this.",
        "Arrays and `cudaMalloc3D` are not counted as memory.",
    ),
)
