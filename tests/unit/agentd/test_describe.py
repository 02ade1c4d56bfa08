"""Facts about a process are right or absent."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from scope_agentd.pipeline.describe import described_in_proc
from scope_bpf.code.proc import TICK_NS, stat_of


def start_ns_of(pid: int) -> int:
    return stat_of(pid).start_ticks * TICK_NS


def test_a_process_that_lives_is_described() -> None:
    """Executable, command line and parent are those of /proc."""
    with subprocess.Popen([sys.executable, "-c", "input()", "ä", ""], stdin=subprocess.PIPE) as child:
        try:
            while not (found := described_in_proc(child.pid, start_ns_of(child.pid))) or "-c" not in found.cmdline:
                time.sleep(0.01)  # the child has not called exec yet
        finally:
            child.kill()
    assert found.exe == os.path.realpath(sys.executable)
    assert list(found.cmdline) == [sys.executable, "-c", "input()", "ä", ""]
    assert (found.pid, found.parent_pid) == (child.pid, os.getpid())


def test_another_process_with_its_number_is_not_taken_for_it() -> None:
    """Pids are reused: a process with another start time is not described."""
    assert described_in_proc(os.getpid(), start_ns_of(os.getpid()))
    assert described_in_proc(os.getpid(), start_ns_of(os.getpid()) + TICK_NS) is None


@pytest.mark.parametrize("pid", [0, -1, 4_194_303])
def test_what_is_not_there_is_not_described(pid: int) -> None:
    """A pid without a process gives None, without an error."""
    assert described_in_proc(pid, 0) is None


def test_kernel_threads_have_no_executable() -> None:
    """Each kernel thread of this host, a child of kthreadd, has no executable and no command line."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (pid := int(folder.name)) > 2 and stat_of(2).comm == "kthreadd":
            with suppress(OSError):  # the process has ended meanwhile
                found = described_in_proc(pid, start_ns_of(pid))
                assert not found or found.parent_pid != 2 or (found.exe, list(found.cmdline)) == ("", [])
