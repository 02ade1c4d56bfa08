"""Peers that connect and then say nothing, or half a greeting; and what they cost others."""

import asyncio
import resource
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any

import pytest

HALF_OPEN = 1009
_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # the beginning of a ClientHello
_PATIENCE_S = 60
_TRIES = 5
_TIMES, _MORE_S = 3, 2.0  # so much slower may the quickest of some tries be


@contextmanager
def many_files(needed: int) -> Iterator[None]:
    """While inside, this process may have so many files open, or the test is skipped."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < needed:
        pytest.skip(f"needs {needed} open files; raise the hard limit (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@asynccontextmanager
async def half_open(ports: Sequence[int]) -> AsyncIterator[None]:
    """While inside, HALF_OPEN connections to ports of 127.0.0.1, in turns."""
    with many_files(8 * HALF_OPEN), ExitStack() as opened:  # at both ends
        for number in range(HALF_OPEN):
            half = opened.enter_context(
                socket.create_connection(("127.0.0.1", ports[number % len(ports)]), _PATIENCE_S)
            )
            if number % 3:
                half.sendall(_HELLO)
            await asyncio.sleep(0)
        yield


async def disturb_nobody(ports: Sequence[int], works: Callable[[], Awaitable[Any]], name: str) -> None:
    """Checks that half-open connections to these ports make a piece of work at most three times and 2 s slower.

    The quickest of some tries counts, before and meanwhile: what else this machine does makes single ones slow.
    """
    before = await _quickest(works)
    async with half_open(ports):
        meanwhile = await _quickest(works)
    print(f"{name}: {before:.3f} s, with {HALF_OPEN} half-open connections {meanwhile:.3f} s")
    assert meanwhile <= _TIMES * before + _MORE_S


async def _quickest(works: Callable[[], Awaitable[Any]]) -> float:
    times = []
    for _ in range(_TRIES):
        begin = time.monotonic()
        await works()
        times.append(time.monotonic() - begin)
    return min(times)
