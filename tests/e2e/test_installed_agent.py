"""An agent as the service of a systemd that boots in a network namespace of its own, with a server in another one."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.booted import run_booted
from tests.e2e.places import PATIENCE_S, Place, server_in, two_places

MARKS = 7


@pytest.mark.timeout(600)
def test_an_installed_agent_comes_through_a_network_that_goes(tmp_path: Path) -> None:
    """It joins while it is installed. Its service starts without a network, connects when there is one, goes on with
    its tasks after its watchdog, and what it records while the link is cut reaches the server."""
    booted = tmp_path / "booted"
    booted.mkdir()
    with two_places(tmp_path) as (server, machine, wire), server_in(server) as token, ThreadPoolExecutor(1) as pool:
        script = Path(__file__).with_name("agent_script.py")
        ran = pool.submit(run_booted, script, booted, inside=machine.command(), files={"token": token})
        meeting = Meeting(booted / "shared", ran)
        with meeting.at("joined"):
            assert not _connected(server)
            wire.cut()
        with meeting.at("started"):
            wire.heal()
            server.eventually(lambda: _connected(server), "the service is connected")
            assert server.admin("start", _nodes(server)[0]["machine_id"], "process")
            server.eventually(lambda: _states(server) == ["running"], "the task runs")
        with meeting.at("restarted"):
            server.eventually(lambda: _connected(server) and _states(server) == ["running"], "it goes on")
            wire.cut()
            mark = tmp_path / "a-mark"
            shutil.copy("/bin/true", mark)
            for _ in range(MARKS):
                subprocess.run([mark], check=True)
            wire.heal()
            marks = ("events", "exec", "--where", "comm = a-mark", "--json")
            server.eventually(lambda: len(server.admin(*marks).splitlines()) == MARKS, "all of them are stored")
        seen = json.loads(ran.result())
    assert seen["without a network"] == ["active", "running", "0"]
    assert seen["after the watchdog"]
    assert seen["stopped"] == ["inactive", "success"]


@dataclass(frozen=True)
class Meeting:
    """The script and the test wait for each other, by files in a folder that both see."""

    folder: Path
    script: "Future[str]"

    @contextmanager
    def at(self, step: str) -> Iterator[None]:
        """Waits until the script is there; it goes on after the block."""
        end = time.monotonic() + PATIENCE_S
        while not (self.folder / f"{step}.here").exists():
            assert not self.script.done(), self.script.result()
            assert time.monotonic() < end, f"the script did not come to {step}"
            time.sleep(0.2)
        yield
        (self.folder / f"{step}.there").touch()


def _nodes(server: Place) -> list[dict[str, Any]]:
    return list(json.loads(server.admin("nodes", "--json") or "[]"))


def _connected(server: Place) -> bool:
    return [node["connected"] for node in _nodes(server)] == [True]


def _states(server: Place) -> list[str]:
    return [task["state"] for task in json.loads(server.admin("tasks", "--json") or "[]")]
