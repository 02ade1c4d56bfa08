"""When a trace is over."""

import fcntl
import os
import resource
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from scope_cli.trace.ending import Ending


def test_the_end_of_a_process_is_seen_at_any_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace of many libraries has more descriptors than the 1024 that select(2) takes."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 2048), before[1]))
    read, write = os.pipe()
    high = fcntl.fcntl(read, fcntl.F_DUPFD, 1500)
    os.close(write)  # readable, like the pidfd of a process that has ended
    tracing: Any = SimpleNamespace(pidfds=[high], command=None)
    recording: Any = SimpleNamespace(error=None)
    try:
        Ending(tracing, recording, None).wait()
    finally:
        os.close(read)
        os.close(high)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
