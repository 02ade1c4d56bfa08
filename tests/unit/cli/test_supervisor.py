"""Parts of `scope up` are restarted whenever they end: tests with real processes that die in known ways."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scope_cli.flag import Flag
from scope_cli.stack.child import Child
from scope_cli.stack.supervisor import PartEnded, Pauses, Supervisor

QUICK = Pauses(first_s=0.01, longest_s=0.04, well_s=60)
Said = list[str]


class Scene:
    """Supervises one Python script, which counts its starts in a file."""

    def __init__(self, folder: Path) -> None:
        self.said: Said = []
        self.hurry = Flag()
        self.folder = folder
        self._running: list[Supervisor] = []

    def run(self, script: str, pauses: Pauses = QUICK, settled: bool = True) -> Supervisor:
        """Starts the script; it is ended with the test."""
        program = self.folder / "program.py"
        program.write_text(_BEGIN + script)
        child = Child(
            "agentd", [sys.executable, str(program)], self.folder / "log", {"LIVES": str(self.folder / "lives")}
        )
        supervisor = Supervisor(child, self.said.append, self.hurry, pauses)
        if settled:
            supervisor.settle()
        supervisor.start()
        self._running.append(supervisor)
        return supervisor

    @property
    def lives(self) -> int:
        """How often the script has started."""
        with contextlib.suppress(FileNotFoundError):
            return len((self.folder / "lives").read_text())
        return 0

    @property
    def pid(self) -> int:
        """The script's process id."""
        return int((self.folder / "lives.pid").read_text())

    def end(self) -> None:
        """Ends all scripts that still run."""
        self.hurry.set()
        for supervisor in self._running:
            supervisor.stop()


_BEGIN = """
import os, signal, sys, time
from pathlib import Path
lives = Path(os.environ["LIVES"])
with lives.open("a") as file:
    file.write("x")
life = len(lives.read_text())
fresh = lives.with_suffix(".fresh")
fresh.write_text(str(os.getpid()))
fresh.replace(lives.with_suffix(".pid"))
"""


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A scene in which no script runs yet."""
    made = Scene(tmp_path)
    yield made
    made.end()


def until(condition: Callable[[], bool]) -> None:
    """Waits until the condition is true, at most 30 s."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_killed_part_is_started_again_and_told(scene: Scene) -> None:
    """A killed part is restarted; the message has the signal, the pause, the restarts and the part's last line."""
    supervisor = scene.run("print('here I am', flush=True)\ntime.sleep(1000)")
    until(lambda: scene.lives == 1 and (scene.folder / "log").read_text() != "")
    os.kill(scene.pid, signal.SIGKILL)
    until(lambda: scene.lives == 2 and supervisor.running)
    assert scene.said == [
        "agentd ended (killed by signal 9), started again in 0.01 s; 1 restart; it said: here I am",
        "agentd runs again",
    ]
    assert supervisor.line == "agentd runs; 1 restart"


def test_pauses_double_up_to_the_longest(scene: Scene) -> None:
    """The pause before a restart doubles up to the longest: a part that ends at once is not restarted in a loop."""
    scene.run("sys.exit('scope: the disk is full')")
    until(lambda: len([line for line in scene.said if "ended" in line]) >= 5)
    ends = [line for line in scene.said if "ended" in line][:5]
    assert [line.partition("again in ")[2].partition(" s;")[0] for line in ends] == [
        "0.01",
        "0.02",
        "0.04",
        "0.04",
        "0.04",
    ]
    assert "(status 1)" in ends[-1] and ends[-1].endswith("5 restarts; it said: the disk is full")


def test_who_ran_well_begins_with_the_first_pause(scene: Scene) -> None:
    """A part that ran for as long as is well is restarted after the first pause, however often it ends."""
    scene.run("if life < 4: sys.exit(3)\ntime.sleep(1000)", Pauses(first_s=0.01, longest_s=10, well_s=0))
    until(lambda: scene.lives == 4)
    told = [line.partition("again in ")[2].partition(" s;")[0] for line in scene.said if "ended" in line]
    assert told == ["0.01", "0.01", "0.01"]


def test_the_view_says_when_it_is_started_again(scene: Scene) -> None:
    """During a pause, the part's line says how it ended and when it is restarted."""
    supervisor = scene.run("sys.exit(3)", Pauses(first_s=100))
    until(lambda: "ended" in supervisor.line)
    assert supervisor.line == "agentd ended (status 3), started again in 100 s; 1 restart"
    assert not supervisor.running


def test_a_refusal_before_all_had_settled_is_final(scene: Scene) -> None:
    """A part that refuses to start before all parts have settled is not restarted; its message is kept."""
    supervisor = scene.run("sys.exit('scope: the address is taken')", settled=False)
    until(lambda: supervisor.refusal is not None)
    assert supervisor.refusal and supervisor.refusal.said == "the address is taken"
    supervisor.stop()
    assert (scene.lives, scene.said) == (1, [])


def test_a_kill_before_all_had_settled_heals(scene: Scene) -> None:
    """A part that is killed before all parts have settled is restarted: a kill is no refusal."""
    supervisor = scene.run("if life < 3: os.kill(os.getpid(), 9)\ntime.sleep(1000)", settled=False)
    until(lambda: scene.lives == 3)
    assert supervisor.refusal is None


def test_an_end_without_an_error_is_an_end(scene: Scene) -> None:
    """A part that ends with status 0 is restarted too."""
    scene.run("if life == 2: time.sleep(1000)")
    until(lambda: scene.lives == 2)
    assert scene.said[0] == "agentd ended (status 0), started again in 0.01 s; 1 restart"


def test_a_stop_ends_it_in_order(scene: Scene) -> None:
    """A stopped part has time to clean up, and is not restarted."""
    script = """
def end(*_):
    time.sleep(0.2)
    lives.with_suffix(".last").write_text("words")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
lives.with_suffix(".ready").touch()
while True: time.sleep(0.01)
"""
    supervisor = scene.run(script)
    until((scene.folder / "lives.ready").exists)
    supervisor.stop()
    assert (scene.folder / "lives.last").read_text() == "words"
    assert (scene.lives, scene.said) == (1, [])


def test_a_hurried_stop_needs_no_consent(scene: Scene) -> None:
    """In a hurry, a part that ignores SIGTERM is killed."""
    ready = scene.folder / "lives.ready"
    supervisor = scene.run(
        f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen({str(ready)!r}, 'w')\ntime.sleep(1000)"
    )
    until(ready.exists)
    pid = scene.pid
    scene.hurry.set()
    supervisor.stop()
    assert not _alive(pid)


def test_a_stop_in_a_pause_waits_for_nothing(scene: Scene) -> None:
    """A stop during a pause does not wait for the end of the pause."""
    supervisor = scene.run("sys.exit(3)", Pauses(first_s=1000))
    until(lambda: "ended" in supervisor.line)
    supervisor.stop()
    assert scene.lives == 1


class Broken:
    """A part whose start fails with a programming error."""

    name = "broken"
    pid = None
    tries = 0

    def start(self, stop: Flag) -> None:
        self.tries += 1
        raise ZeroDivisionError("a mistake")

    def upkeep(self) -> None: ...

    def ending(self) -> PartEnded:
        raise AssertionError

    def stop(self, hurry: Flag) -> None: ...


def test_an_error_of_ours_is_no_silence() -> None:
    """A programming error in a start is reported like an end of the part, and the start is tried again."""
    said: Said = []
    part = Broken()
    supervisor = Supervisor(part, said.append, Flag(), QUICK)
    supervisor.start()
    until(lambda: part.tries == 2)
    supervisor.stop()
    assert said[0].startswith("broken ended (not started), started again in 0.01 s; 1 restart; it said: ZeroDivision")


def test_a_part_ends_with_its_owner(tmp_path: Path) -> None:
    """A part is ended when its owner dies, even by SIGKILL."""
    script = f"""
import sys, time
from pathlib import Path
from scope_cli.flag import Flag
from scope_cli.stack.child import Child
child = Child("sleep", ["sleep", "1000"], Path({str(tmp_path / "log")!r}), {{}})
child.start(Flag())
while Path(f"/proc/{{child.pid}}/comm").read_text() != "sleep\\n": time.sleep(0.01)
print(child.pid, flush=True)
time.sleep(1000)
"""
    owner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert owner.stdout
    pid = int(owner.stdout.readline())
    assert _alive(pid)
    owner.kill()
    owner.communicate()
    until(lambda: not _alive(pid))
