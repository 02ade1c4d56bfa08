"""A llama-server in this process, from the PyPI package xllamacpp. Prints what it measures of each completion, as JSON.

usage: server.py MODEL SLOTS DRAFTS DRAFTER ROUND...

With DRAFTS > 0, the model DRAFTER proposes so many tokens at once. A round is completions that run at the same time:
`PROMPT*N,...` asks for N tokens after a prompt of PROMPT words. The process stops itself (SIGSTOP) when llama.cpp is
loaded, and, with `!` behind a request, when the tenth token has come; with `>PROMPT*N`, that request is made then.
THREADS in the environment threads compute.
"""

import json
import os
import signal
import sys
import threading
from typing import Any

import xllamacpp

ACTS_AT = 10


def serve(model: str, slots: int, drafts: int, drafter: str) -> Any:
    """The server."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_parallel = slots
    params.n_ctx = 2048 * slots
    params.cpuparams.n_threads = int(os.environ.get("THREADS", "1"))
    params.warmup = True
    params.verbosity = 0
    if drafts:
        params.speculative.draft.mparams.path = drafter
        params.speculative.draft.n_max = drafts
        params.speculative.draft.cpuparams.n_threads = 1
        params.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
    return xllamacpp.Server(params)


def complete(server: Any, asked: str) -> None:
    """Asks for a completion of words that only prompts of similar lengths begin with."""
    asked, _, later = asked.partition(">")
    words, tokens = map(int, asked.removesuffix("!").split("*"))
    next_one = threading.Thread(target=complete, args=(server, later))
    chunks: list[dict[str, Any]] = []

    def take(chunk: dict[str, Any]) -> None:
        chunks.append(chunk)
        if len(chunks) == ACTS_AT and asked.endswith("!"):
            os.kill(os.getpid(), signal.SIGSTOP)
        if len(chunks) == ACTS_AT and later:
            next_one.start()

    prompt = f"{chr(ord('a') + words % 26)} " * words
    wanted = {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "temperature": 0, "stream": True}
    server.handle_completions(wanted, take)
    (timings,) = (chunk["timings"] for chunk in chunks if chunk.get("timings"))
    print(f"{json.dumps(timings)}\n", end="", flush=True)  # in one piece, since several threads print
    if later:
        next_one.join()


def main() -> None:
    """Plays the rounds."""
    model, slots, drafts, drafter, *rounds = sys.argv[1:]
    os.kill(os.getpid(), signal.SIGSTOP)
    server = serve(model, int(slots), int(drafts), drafter)
    for each in rounds:
        threads = [threading.Thread(target=complete, args=(server, asked)) for asked in each.split(",")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
