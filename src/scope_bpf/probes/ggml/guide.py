"""What people should know about the probe `ggml`."""

from scope_catalogue.guide import Example, Guide

GUIDE = Guide(
    examples=(
        Example(
            "scope trace ggml -- llama-cli -m model.gguf -p Hello -n 40",
            "computed graphs, and the memory that ggml holds",
        ),
        Example(
            "scope trace ggml -o stacks=true --flamegraph /tmp/memory.svg -- llama-cli -m model.gguf -p Hello -n 40",
            "a flame graph of the allocations",
        ),
    ),
    notes=(
        "`ggml` adds to `llama` the graphs that a batch consists of, operations on NVIDIA GPUs, and the memory "
        "that ggml allocates.",
        "`ggml_operation` has a row per call of a function of the CUDA backend, such as `ggml_cuda_mul_mat_vec_q`, "
        "under the names of llama.cpp from July 2024 to 2026: its duration on the host, and the operation, name, "
        "type and shape of its result.",
        "Once ggml has made a CUDA graph, it launches the graph instead of calling these functions. A launch is a "
        "row with the function `cuda_graph_launch`. If a process has only launches for a second or more, a note "
        "says that functions are attached, for how long they had no hits, and how many graphs were launched "
        "meanwhile.",
        "`ggml_memory` has the memory that is not freed: in the host's memory, and in ggml's pools on GPUs. With "
        "`-o stacks=true`, `ggml_live` has it by the stack that allocated it.",
    ),
    limits=(
        "To tell where the time of calls went, programs run at every context switch, wakeup and page fault of the "
        "machine, as with `span -o where=true`.",
        "Where the operation, name, type and shape are in memory, and the numbers of operations, differ by "
        "version, so both are read in the program's own build of ggml (x86-64). If its code is not the known one, "
        "these columns are absent, and a note says so. Some of the functions have no name in stripped libraries.",
    ),
)
