"""Does known numbers of things that the console's screens show: calls of a function, reads, failed opens, sleeps.

usage: counted.py FILE
"""

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

CALLS, READS, BLOCK, MISSING, SLEEPS = 211, 13, 4096, 17, 101
NAME = "counted-e2e"


def counted() -> None:
    """Does nothing."""


def main(path: str) -> None:
    """Does each of them."""
    Path(path).write_bytes(bytes(READS * BLOCK))
    for _ in range(CALLS):
        counted()
    file_of_reads = os.open(path, os.O_RDONLY)
    for _ in range(READS):
        os.read(file_of_reads, BLOCK)
    for _ in range(MISSING):
        with suppress(FileNotFoundError):
            os.open(f"{path}.missing", os.O_RDONLY)
    for _ in range(SLEEPS):
        time.sleep(0.001)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(15, NAME.encode(), 0, 0, 0)  # PR_SET_NAME
    os.kill(os.getpid(), signal.SIGSTOP)
    main(sys.argv[1])
