"""How a daemon ends: cleanly on a signal, with one line on an error."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from scope_cli.daemon import run_until_signalled
from scope_cli.errors import CommandError
from scope_cli.service.notify import Notifier
from scope_wire.background import background
from scope_wire.errors import InvalidToken

IMPORTED = """
import gc
from scope_cli.daemon import imported_for_good
looks = []
with imported_for_good():
    gc.callbacks.append(lambda phase, told: looks.append(told))
    import scope_agentd.app
    assert not looks
    gc.callbacks.clear()
assert gc.isenabled()
assert len(gc.get_objects()) < 1000, len(gc.get_objects())
"""


class DaemonError(Exception):
    """The root of a daemon's errors."""


class Taken(DaemonError):
    """One of a daemon's errors."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    """After a signal, a daemon has time to clean up, and ends without an error."""
    cleaned = []

    async def serve(stop: asyncio.Event, _: Notifier) -> None:
        os.kill(os.getpid(), number)
        await stop.wait()
        await asyncio.sleep(0.01)
        cleaned.append(True)

    run_until_signalled(serve, DaemonError)
    assert cleaned == [True]


@pytest.mark.parametrize("error", [Taken("another program listens there"), InvalidToken("it holds no token")])
def test_an_error_of_its_own_is_one_line(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """A daemon's own error is reported in one line, without a traceback."""

    async def serve(*_: object) -> None:
        raise error

    with pytest.raises(CommandError) as told:
        run_until_signalled(serve, DaemonError)
    assert str(told.value) == str(error)
    assert not caplog.records


def test_of_work_in_the_background_the_cause_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """The cause is reported from inside nested exception groups; the log has the traceback."""

    async def fails() -> None:
        raise Taken("the spool's directory\nis gone")

    async def serve(stop: asyncio.Event, _: Notifier) -> None:
        async with background(outer=_rest()), background(inner=fails()):
            await stop.wait()

    with pytest.raises(CommandError) as told:
        run_until_signalled(serve, DaemonError)
    assert str(told.value) == "the spool's directory; is gone"
    assert any(record.message == "ended by an error" and record.exc_info for record in caplog.records)


async def _rest() -> None:
    await asyncio.sleep(1000)


def test_an_error_of_ours_is_told_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected error is one line for the user; the log has the traceback."""

    async def serve(*_: object) -> None:
        raise KeyError("stream")

    with pytest.raises(CommandError) as told:
        run_until_signalled(serve, DaemonError)
    assert str(told.value) == "KeyError: 'stream'"
    assert any(record.exc_info for record in caplog.records)


def test_the_collector_never_looks_at_what_a_daemon_imports() -> None:
    """Neither during the import nor later, when each look would stop all threads."""
    ran = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
