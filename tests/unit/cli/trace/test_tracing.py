"""What tracers are given."""

from pathlib import Path
from typing import Any

import pytest

from scope_bpf.catalogue.target import Target
from scope_bpf.host import memory_bytes
from scope_bpf.probes import probe_named
from scope_cli.trace import tracing


@pytest.mark.parametrize("names", [["syscalls"], ["process", "files"]])
def test_an_eighth_of_the_memory_may_wait(monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
    """A local trace may keep an eighth of the memory waiting for its outputs, all its probes together."""
    given: list[int] = []

    class FakeTracer:
        def __init__(self, *_: Any, waiting_bytes: int, **__: Any) -> None:
            given.append(waiting_bytes)

        def start(self) -> None: ...
        def close(self) -> None: ...

    monkeypatch.setattr(tracing, "Tracer", FakeTracer)
    monkeypatch.setattr(tracing, "memory_bytes", lambda: 16 << 30)
    with tracing.Tracing([probe_named(name) for name in names], {}, Target()) as trace:
        trace.start()
    assert given == [(2 << 30) // len(names)] * len(names)


def test_the_memory_is_at_most_the_machines() -> None:
    """The memory that a process may use is some of the machine's."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    total = int(next(line.split()[1] for line in lines if line.startswith("MemTotal"))) << 10
    assert 0 < memory_bytes() <= total + (1 << 20)
