"""What people should know about the probe `ollama`."""

from scope_catalogue.guide import Example, Guide

GUIDE = Guide(
    examples=(
        Example(
            "scope trace ollama --duration 1",
            "requests to all servers of models on this machine, for a second",
        ),
        Example(
            "scope trace ollama,llama --perfetto /tmp/requests.pftrace --duration 1",
            "requests over HTTP, with the runner's requests and tokens, on one timeline",
        ),
    ),
    notes=(
        "It watches Ollama, llama.cpp's `llama-server`, and any other program that serves such paths over plain "
        "HTTP/1. `-o paths=/api/chat,/v1/` chooses others, `-o paths=/` all.",
        "`ollama_request` has a row per request: method, path, status, the client's address, bytes of both sides, "
        "time until the first byte of the response and of its body, and how it ended: `complete`, or who closed "
        "the connection first. A streamed response also has its pieces: `chunks` of the encoding, `writes` of the "
        "server, and the mean and the longest time between two of them.",
        "For the slowest requests, a table and `GET /api/v1/slowest/ollama_request` say what took longer than usual: "
        "`first_body_ns`, in which a model waits, loads and reads the prompt, or `streaming_ns`, in which it writes. "
        "`llama_token` tells more of a slow token: its thread's time on a CPU, waiting and outside of llama.cpp.",
        "A client that closes the connection before the response is written has aborted the request: `ended` is "
        "`peer_closed`, though the server writes a whole response, with its status.",
        "`ollama_chunk` has a row per write of a response's body.",
        "`ollama_model` has a row per model file that a process loads: path, size, bytes mapped and read, and how "
        "long that took. A file is a model if a watched process reads its first bytes and they are GGUF's. Pages "
        "of a mapping may be read from disk later, in page faults, which `why` and `span -o where=true` show.",
        "`ollama_log` has a row per piece of the log, with its level: of `llamaLog` (Ollama 0.5 to 0.24) and of "
        "the callbacks of llama.cpp and ggml. `-o level=debug` records all: llama.cpp calls them for debug lines "
        "also if the program drops these.",
        "Since 0.30, Ollama passes each request on to a `llama-server`, as it did to its own runner before: such a "
        "request has a row in each process. Process and time connect them: a `llama_request` lies within the "
        "`ollama_request` of its process that caused it. Where several are on the way at once, more than one lies "
        "there.",
    ),
    limits=(
        "It keeps no header fields, no bodies and no queries.",
        "HTTPS, HTTP/2, `io_uring`, `splice` and 32-bit programs are not seen. A connection whose first bytes "
        "since the trace began are no request line is left alone until one comes, so a request that runs already "
        "has no row.",
        "Whether a client has closed the connection, or only its own side, is known by its answer to the response. If "
        "that has not come when the server closes the connection, such a response with a body is `complete`.",
        "What `llama-server` formats itself does not pass the log's callbacks.",
        "In a watched process, a call that reads or writes a socket takes 0.8 µs longer, one that reads a file 0.6 "
        "µs, and other syscalls 0.3 µs, as in all other processes of the machine; measured in a virtual machine.",
    ),
)
