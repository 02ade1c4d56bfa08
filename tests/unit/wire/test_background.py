"""Background work that ends is an error of whoever started it."""

import asyncio

import pytest

from scope_wire.background import EndedUnexpectedly, background


async def _forever() -> None:
    await asyncio.Event().wait()


async def test_work_is_cancelled_when_the_block_ends() -> None:
    """In order, without an error."""
    async with asyncio.timeout(30):
        async with background(work=_forever()):
            await asyncio.sleep(0)


async def test_a_failure_ends_the_block() -> None:
    """With the failure as its error."""

    async def fails() -> None:
        raise KeyError("lost")

    with pytest.raises(ExceptionGroup) as raised:
        async with asyncio.timeout(30), background(steady=_forever(), broken=fails()):
            await _forever()
    assert raised.group_contains(KeyError)


async def test_a_quiet_end_ends_the_block_too() -> None:
    """Work that is to run for ever has no business to return."""

    async def returns() -> None:
        return

    with pytest.raises(ExceptionGroup) as raised:
        async with asyncio.timeout(30), background(done=returns()):
            await _forever()
    assert raised.group_contains(EndedUnexpectedly, match="done ended")
