"""A timeline of 10,000,000 events, asked of the server: how long it takes, and how much memory it needs for it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

from bench.filled import Filled, filled_server
from bench.measure import Result, at_most
from scope_cli.bench_fleet.server import FleetServer

ROWS = 10_000_000
_MOST_MB = 256
_LOOK_EVERY_S = 0.1
_Format = Literal["perfetto", "chrome"]


def run(rows: int = ROWS) -> list[Result]:
    """Of each format the time, the size, and the memory that the server takes beyond what it had."""
    with filled_server(rows) as filled:
        return [result for format_ in get_args(_Format) for result in _drawn(filled, rows, format_)]


def _drawn(filled: Filled, rows: int, format_: _Format) -> list[Result]:
    file = filled.folder / "trace"
    began = time.monotonic()
    with _peak(filled.server) as looked, file.open("wb") as out:
        filled.server.client().get_trace(out, since=filled.since, until=filled.until, format=format_)
    seconds = time.monotonic() - began
    told = f"{seconds:.0f} s, {rows / seconds:,.0f} events/s, {file.stat().st_size / 1e6:,.0f} MB"
    file.unlink()
    return [
        Result(f"trace of {rows:,} events, format {format_}", told),
        at_most("... growth of the server's memory", (max(looked) - looked[0]) / 1e6, _MOST_MB, " MB"),
    ]


@contextmanager
def _peak(server: FleetServer) -> Iterator[list[int]]:
    """The server's resident memory while the block runs, in bytes; the first one is from before."""
    looked, ended = [server.resident_bytes], threading.Event()

    def look() -> None:
        while not ended.wait(_LOOK_EVERY_S):
            looked.append(server.resident_bytes)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield looked
    finally:
        ended.set()
        thread.join()
