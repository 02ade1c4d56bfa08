"""What daemons tell the service manager, over a real socket like systemd's."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scope_cli.daemon import run_until_signalled
from scope_cli.service.notify import Notifier

Receive = Callable[[], list[str]]


@pytest.fixture(params=["a file", "an abstract name"])
def receive(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Receive:
    """Sets NOTIFY_SOCKET; returns the messages so far."""
    name = str(tmp_path / "notify") if request.param == "a file" else f"@scope-test-{os.getpid()}"
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    request.addfinalizer(receiver.close)
    receiver.bind(name.replace("@", "\0"))
    receiver.setblocking(False)
    monkeypatch.setenv("NOTIFY_SOCKET", name)

    def all_so_far() -> list[str]:
        messages = []
        while True:
            try:
                messages.append(receiver.recv(4096).decode().partition("\n")[0])
            except BlockingIOError:
                return messages

    return all_so_far


def run(serve: Callable[[asyncio.Event], object], ready: bool = True) -> None:
    """Runs a daemon until it has had SIGTERM."""

    async def daemon(stop: asyncio.Event, notifier: Notifier) -> None:
        if ready:
            notifier.ready()
        serve(stop)
        await asyncio.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()

    run_until_signalled(daemon, RuntimeError)


def test_start_life_and_end_are_told(receive: Receive, monkeypatch: pytest.MonkeyPatch) -> None:
    """READY comes first, STOPPING once, after the signal, and signs of life three times in the watchdog's time."""
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    run(lambda _: None)
    messages = receive()
    assert messages[0] == "READY=1"
    assert [message for message in messages[1:] if message != "WATCHDOG=1"] == ["STOPPING=1"]
    assert len(messages) > 3


def test_a_stuck_loop_gives_no_sign_of_life(receive: Receive, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the event loop is blocked, nothing is sent, so that the service manager restarts the daemon."""
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    while_stuck: list[str] = []

    def block(_: asyncio.Event) -> None:
        time.sleep(0.5)
        while_stuck.extend(receive())

    run(block)
    assert while_stuck == ["READY=1"]
    assert "WATCHDOG=1" in receive()


@pytest.mark.parametrize("variables", [{}, {"WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"}])
def test_without_a_watchdog_there_are_no_signs_of_life(
    variables: dict[str, str], receive: Receive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signs of life are sent only if they are expected, and expected of this process."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    run(lambda _: None)
    assert receive() == ["READY=1", "STOPPING=1"]


def test_a_manager_that_is_gone_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A daemon goes on if the socket is not there, and if there is no service manager."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "none"))
    run(lambda _: None)
    monkeypatch.delenv("NOTIFY_SOCKET")
    run(lambda _: None)
