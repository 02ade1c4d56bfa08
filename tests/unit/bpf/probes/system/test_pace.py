"""What takes long to read is read less often, so that it costs a fixed share of a core at most."""

import time
from typing import Any

import pytest

from scope_bpf.probes.system.pace import EVERY_NS, Pace

MS = 1_000_000


@pytest.mark.parametrize(("takes_ms", "pause_ms"), [(0, 5_000), (20, 5_000), (21, 5_250), (400, 100_000)])
def test_the_pause_grows_with_the_work(monkeypatch: pytest.MonkeyPatch, takes_ms: int, pause_ms: int) -> None:
    """Up to 20 ms of CPU time are spent every 5 s; beyond, 1 ms in 250."""
    spent_ns, lasted = 0, []

    def rows(lasted_ns: int) -> list[dict[str, Any]]:
        nonlocal spent_ns
        spent_ns += takes_ms * MS
        lasted.append(lasted_ns)
        return [{}]

    monkeypatch.setattr(time, "clock_gettime_ns", lambda _: spent_ns)
    pace, now_ns = Pace(rows), 3 * EVERY_NS
    assert pace.read(now_ns) == [{}]
    assert pace.read(now_ns + pause_ms * MS - 1) is None
    assert pace.read(now_ns + pause_ms * MS) == [{}]
    assert lasted == [0, pause_ms * MS]
