"""What the kernel knows about processes, while many come and go."""

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from scope_bpf.binding.unwind import unwind_rows
from scope_bpf.capture import followed, functions
from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.code import unwinding
from scope_bpf.code.stacks import StackResolver
from scope_bpf.host import has_host_pids
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

ENOUGH_S = 60
PROCESSES = 701


@pytest.mark.alone  # follows every process of the machine
def test_nothing_is_kept_of_what_has_ended(runnable: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process is known while it runs; the room for its code is free after that."""
    if runnable["profile"] or not has_host_pids():
        pytest.skip(runnable["profile"] or "processes have other pids here")
    monkeypatch.setattr(followed, "_LOOK_EVERY_S", 0.5)
    profile = probe_named("profile")
    command = f"i=0; while [ $i -lt {PROCESSES} ]; do /bin/true; i=$((i+1)); done"
    with Tracer(profile, parse_options(profile.options, {"rate": 11}), Target()) as tracer:
        tracer.start()
        assert tracer._functions
        resolver = tracer._functions.resolver
        assert isinstance(resolver, StackResolver)
        told = resolver._stacks._unwinding._processes

        def pids() -> set[int]:
            return {int.from_bytes(key, "little") for key in told.list_keys()}

        with subprocess.Popen(["sh", "-c", command]) as shell:
            while shell.poll() is None:
                tracer.poll(20)
        ended = pids() - {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
        end = time.monotonic() + ENOUGH_S
        while ended and time.monotonic() < end:
            tracer.poll(100)
            ended &= pids()
        assert not ended


def test_a_command_waits_until_its_files_can_be_unwound(
    runnable: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is held until then, also where that takes longer than what is read of running processes may."""
    if runnable["span"]:
        pytest.skip(runnable["span"])
    made: list[int] = []

    def slowly(*given: Any) -> Any:
        time.sleep(0.5)
        rows = unwind_rows(*given)
        made.append(len(rows))
        return rows

    monkeypatch.setattr(unwinding, "unwind_rows", slowly)
    monkeypatch.setattr(functions, "SETTLE_S", 0.0)
    span, command = probe_named("span"), HeldCommand(["/usr/bin/env", "true"])
    options = parse_options(span.options, {"functions": ["libc:getppid"], "stacks": True})
    try:
        with Tracer(span, options, Target(pid=command.pid), command=command.path) as tracer:
            tracer.start()
            assert len(made) >= 2, "the program's and the C library's"
    finally:
        command.close()
