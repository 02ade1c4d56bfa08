"""Counts failed TLS handshakes of gRPC by reason.

gRPC for Python tells no code of ours that a handshake failed, or why: it writes a line to standard error, if
GRPC_VERBOSITY is INFO. So the lines are read there, and what is not gRPC's is passed on. No line says which side
called: a server that an agent does not accept counts like a caller.
"""

import asyncio
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scope_wire.refused.refusals import Reason, Refusals

_STANDARD_ERROR = 2
_OF_GRPC = re.compile(rb"[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w.]+:\d+\] (.*)")
_FAILED = re.compile(r"Handshake failed with .*?routines:\w+:(\w+)(?:: (.*))?$")
_BY_WORD = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": Reason.NO_CERTIFICATE,
    "WRONG_VERSION_NUMBER": Reason.PLAIN_TEXT,
    "HTTP_REQUEST": Reason.PLAIN_TEXT,
}


def have_them_told() -> bool:
    """Has gRPC write which handshakes fail; call it before gRPC is imported for the first time.

    Returns:
        Whether it does so for us; if not, somebody wants to see what gRPC says.
    """
    for_us = os.environ.get("GRPC_VERBOSITY") == "NONE"
    if for_us:
        os.environ["GRPC_VERBOSITY"] = "INFO"
    return for_us


@contextmanager
def count_failed(refusals: Refusals) -> Iterator[None]:
    """While inside, counts each failed handshake, in the running event loop."""
    loop = asyncio.get_running_loop()

    def note(reason: Reason, said: str) -> None:
        loop.call_soon_threadsafe(refusals.note, reason, said)

    with read_standard_error(note):
        yield


@contextmanager
def read_standard_error(note: Callable[[Reason, str], None]) -> Iterator[None]:
    """While inside, calls `note` in a thread for each failed handshake, with gRPC's words; other lines pass.

    What `note` does must not write to standard error, which this thread reads.
    """
    kept = os.dup(_STANDARD_ERROR)
    reading, writing = os.pipe()
    os.dup2(writing, _STANDARD_ERROR)
    os.close(writing)
    thread = threading.Thread(target=_pass_on, args=(reading, kept, note), name="standard-error", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.dup2(kept, _STANDARD_ERROR)  # closes the pipe's last end, so the thread reads the rest, and ends
        thread.join()
        os.close(kept)


def reason_of(line: str) -> Reason | None:
    """Why a handshake failed, by gRPC's line about it; None if the line is about something else."""
    found = _FAILED.search(line)
    if not found:
        return None
    word, detail = found[1], found[2] or ""
    if word == "CERTIFICATE_VERIFY_FAILED":
        return Reason.EXPIRED if "expired" in detail else Reason.AUTHORITY
    return _BY_WORD.get(word, Reason.HANDSHAKE)


def _pass_on(reading: int, to: int, note: Callable[[Reason, str], None]) -> None:
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if of_grpc := _OF_GRPC.match(line):
                said = of_grpc[1].decode(errors="replace").strip()
                if reason := reason_of(said):
                    note(reason, said)
            else:
                _write_all(to, line)


def _write_all(to: int, rest: bytes) -> None:
    while rest:
        rest = rest[os.write(to, rest) :]
