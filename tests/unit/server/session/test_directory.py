"""The directory tells which server holds a session, and loses no news."""

import asyncio

from scope_server.session.directory import LocalDirectory

MACHINE, OTHER = "a" * 32, "b" * 32


async def test_who_holds_a_session() -> None:
    """A machine's session is held from `hold` until `release`."""
    directory = LocalDirectory("this")
    assert await directory.holder(MACHINE) is None
    directory.hold(MACHINE)
    assert (await directory.holder(MACHINE), await directory.holder(OTHER)) == ("this", None)
    directory.release(MACHINE)
    directory.release(MACHINE)
    assert await directory.holder(MACHINE) is None


async def test_news_are_of_one_machine_and_none_is_missed() -> None:
    """News that come between two waits end the next one; those of another machine do not; each reader gets them."""
    directory = LocalDirectory("this")
    with directory.news(MACHINE) as first, directory.news(MACHINE) as second:
        for change in (directory.hold, directory.tell, directory.release):
            change(MACHINE)
            for news in (first, second):
                async with asyncio.timeout(60):
                    await news.wait()
        directory.tell(OTHER)
        waiting = asyncio.create_task(first.wait())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        directory.tell(MACHINE)
        async with asyncio.timeout(60):
            await waiting
    directory.tell(MACHINE)  # nobody reads it any more
