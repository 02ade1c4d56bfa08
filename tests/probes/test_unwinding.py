"""What the kernel knows about processes, while many come and go."""

import subprocess
import time
from pathlib import Path

import pytest

from scope_bpf.capture import followed
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
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
