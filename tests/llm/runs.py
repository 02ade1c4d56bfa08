"""Runs programs with llama.cpp that stop themselves once it is loaded, so that a trace misses nothing."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.probes.recording import Record, Recording

from scope_bpf.catalogue.target import Target

SERVER = Path(__file__).with_name("server.py")
CACHE = Path(__file__).parents[1] / ".cache"


def serving(model: Path, *arguments: str) -> list[str]:
    """The server's command."""
    return [sys.executable, str(SERVER), str(model), *arguments]


@contextmanager
def stopped(command: Sequence[str], out: Path, folder: Path | None = None) -> Iterator[int]:
    """Runs a command that has stopped itself; what it tells goes to a file."""
    with (
        out.open("w") as told,
        subprocess.Popen(command, cwd=folder, stdout=told, stderr=subprocess.DEVNULL) as process,
    ):
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"{command} has ended instead of stopping itself"
        try:
            yield process.pid
        finally:
            process.kill()  # if it has not ended: nothing else ends a stopped process


def going_on(record: Record, pid: int, then: str = "", probe: str = "llama", **options: Any) -> Recording:
    """Records a stopped process until its end."""
    ended = f"until grep -q '^State:.Z' /proc/{pid}/status; do sleep 0.05; done"
    return record(probe, ["sh", "-c", f"kill -CONT {pid}; {then} {ended}"], target=Target(pid=pid), **options)


def recorded_run(
    record: Record,
    command: Sequence[str],
    out: Path,
    folder: Path | None = None,
    probe: str = "llama",
    **options: Any,
) -> Recording:
    """The recording of a whole run."""
    with stopped(command, out, folder) as pid:
        return going_on(record, pid, probe=probe, **options)
