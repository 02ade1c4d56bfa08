"""What people should know about the probe `llama`."""

from scope_catalogue.guide import Example, Guide

GUIDE = Guide(
    examples=(
        Example(
            "scope trace llama -- llama-cli -m model.gguf -p Hello -n 40",
            "requests, tokens and batches, and what made the slowest tokens slow",
        ),
        Example(
            "scope trace llama,ggml,sched --perfetto /tmp/tokens.pftrace -- llama-cli -m model.gguf -p Hello -n 40",
            "requests, tokens, graphs and threads on one timeline",
        ),
    ),
    notes=(
        "It finds llama.cpp in every program that contains it: llama.cpp's own servers, Ollama since 0.30, "
        "node-llama-cpp, Python packages, static builds.",
        "Its numbers have been compared with those that llama.cpp's server and programs of 2026 measure of themselves.",
        "`llama_request` has a row per request: tokens of the prompt, those that were still in the cache, "
        "generated and drafted tokens, time to first token (`ttft_ns`), tokens per second. Requests that share a "
        "context (slots) are told apart by `sequence`.",
        "The row of a request comes when it has ended. That is known when the next one begins in its sequence, its "
        "context is freed, its process ends, or nothing has happened for 2 s. If it then goes on, another row "
        "tells of the rest. What a server computes to warm up is no request.",
        "`llama_token` has a row per generated token. Its time is the sum of `decode_ns`, in calls that compute "
        "batches, `wait_ns`, in calls that wait for results, and `outside_ns`. A batch may have tokens of several "
        "requests; its time counts for each.",
        "The time in calls is split further: waiting for a GPU (CUDA), waiting for a CPU, blocked, stopped by a "
        "signal, and on a CPU by operator: `matmul_ns`, `attention_ns`, `barrier_ns` (spinning until the other threads "
        "are done) and others. So is the time outside of calls, without operators. The parts add up: what is not known "
        "is one of them.",
        "`llama_decode` has a row per batch: tokens, outputs, result, and where its time went.",
        "In speculative decoding, a context that only proposes tokens is marked with `draft` once one of them was "
        "checked.",
        "The table of the slowest tokens says what took longer in each than in the median one: an operator, "
        "waiting for a GPU or a CPU, blocked, or outside of llama.cpp. Before that it says if another request's prompt "
        "was in its batch (`others_prompt_tokens`), or if a signal stopped the process. `others_run_queue_ns` tells "
        "how long the threads that compute it together waited for CPUs that other programs used.",
    ),
    limits=(
        "To tell where the time of calls went, programs run at every context switch, wakeup and page fault of the "
        "machine, as with `span -o where=true`.",
        "The time that a request waits in a server's queue is not part of the request: `ollama` shows requests "
        "over HTTP.",
        "Operators are told by samples of the calling thread (`-o rate=499` a second), by the names of ggml's "
        "functions. A single short token has few samples; many tokens together have enough.",
        "In stripped builds such as Debian's, a function without a name counts for the operators that call it; with "
        "llama.cpp 0.7.0 from Debian, 1 to 10 % of the time on a CPU is `other_ns`: building graphs, and libraries.",
        "A token is a reading of the output of a batch: programs that sample several times from one output have "
        "one row. A token that belongs to several sequences, as in a prompt that they share, counts for the first "
        "one.",
    ),
)
