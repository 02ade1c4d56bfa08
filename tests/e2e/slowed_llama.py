"""A llama.cpp server whose tokens are slow twice: another program takes its CPU, then other requests have long prompts.

usage: slowed_llama.py MODEL HOG

Everything runs on one CPU: the server, and in the second act the program HOG, too. Prints a JSON object for each act:
its name, and when it began and ended in seconds since 1970. Stops itself (SIGSTOP) when llama.cpp is loaded.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "llm"))

from server import complete, serve

TOKENS = 900
HELD_BACK = 1900  # tokens of the request that shares its CPU: enough for several intervals of the scheduler's summary
PROMPTS = (400, 410, 420, 430, 440, 450, 460, 470)  # words, of requests one after the other


@contextmanager
def act(name: str) -> Iterator[None]:
    """Tells when it ran."""
    since = time.time()
    yield
    print(json.dumps({"act": name, "since": since, "until": time.time()}), flush=True)


def main() -> None:
    """Plays the acts."""
    model, hog = sys.argv[1:]
    os.kill(os.getpid(), signal.SIGSTOP)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    server = serve(model, 2, 0, "-")
    with act("usual"):
        complete(server, f"9*{TOKENS}")
    with act("hog"), subprocess.Popen([hog]) as busy:
        complete(server, f"8*{HELD_BACK}")
        busy.kill()
    with act("usual again"):
        complete(server, f"7*{TOKENS}")
    with act("prompts"):
        answered = threading.Thread(target=complete, args=(server, f"6*{HELD_BACK}"))
        answered.start()
        for words in PROMPTS:
            complete(server, f"{words}*3")
        answered.join()


if __name__ == "__main__":
    main()
