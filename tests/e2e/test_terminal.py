"""`scope trace` in a terminal, as a user sees it."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCOPE = f"{sys.executable} -m scope_cli.main"
DEADLINE_S = 90


class Terminal:
    """A terminal of 24 lines that runs a shell.

    Args:
        width: in columns.
    """

    def __init__(self, socket: Path, width: int) -> None:
        self._tmux = ["tmux", "-f", "/dev/null", "-S", str(socket)]
        # Python's readline puts the width of the tests' own terminal into COLUMNS.
        self._run("new-session", "-d", "-x", str(width), "-y", "24", "-s", "t", "env -u COLUMNS PS1='$ ' sh")
        self._run("set-option", "-t", "t", "status", "off")

    def _run(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True).stdout

    def type(self, *keys: str) -> None:
        """Presses keys, as tmux names them."""
        self._run("send-keys", "-t", "t", *keys)

    def screen(self) -> str:
        """The visible lines."""
        return self._run("capture-pane", "-t", "t", "-p")

    def wait_for(self, pattern: str) -> str:
        """Waits until the screen shows the pattern; returns the screen."""
        end = time.monotonic() + DEADLINE_S
        while not re.search(pattern, screen := self.screen(), re.MULTILINE):
            assert time.monotonic() < end, f"nothing shows {pattern!r}:\n{screen}"
            time.sleep(0.1)
        return screen

    def close(self) -> None:
        """Ends the terminal and the programs in it."""
        self._run("kill-server")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[[int], Terminal]]:
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    opened: list[Terminal] = []

    def open_(width: int) -> Terminal:
        opened.append(Terminal(tmp_path / f"tmux{width}", width))
        return opened[-1]

    yield open_
    for each in opened:
        each.close()


@pytest.mark.parametrize("width", [80, 140])
def test_tables_fit_the_terminal(terminal: Callable[[int], Terminal], width: int) -> None:
    """The command's output stays visible. Tables fit: columns without room are named, and no number is cut."""
    shell = terminal(width)
    shell.type(f"clear; {SCOPE} trace process,sched --top 2 -- sh -c 'echo heard; true'", "Enter")
    screen = shell.wait_for(r"rows in [\d.]+ s, none lost$")
    assert "heard" in screen
    assert re.search(r"^comm +pid +count +involuntary +on_cpu +run_queue", screen, re.MULTILINE)
    assert ("share of run_queue" in screen.partition("no room")[0]) == (width == 140)
    assert ("no room for: p50 run_queue" in screen) == (width == 80)
    for line in re.findall(r"^total .*", screen, re.MULTILINE):
        assert re.search(r"\d+\.\d\d (µs|ms|s)$|\d    ns$", line.rstrip())


def test_without_a_command_tables_are_redrawn(terminal: Callable[[int], Terminal]) -> None:
    """Without a command, tables are redrawn in place. After Ctrl-C, the last table and the summary line remain."""
    shell = terminal(100)
    shell.type("while kill -0 $$ && sleep 0.05; do :; done 2> /dev/null & sleep 1", "Enter")  # until the shell ends
    shell.type(f"clear; {SCOPE} trace syscalls --pid $!", "Enter")
    first = shell.wait_for(r"^[\d,]+ rows in [\d.]+ s, none lost\n\nsyscall: ")
    later = shell.wait_for(r"^[\d,]+ rows in ([2-9]|\d\d+)\.\d s, none lost")
    assert len(re.findall("rows in", later)) == len(re.findall("rows in", first)) == 1, "redrawn, not appended"
    shell.type("C-c")
    ended = shell.wait_for(r"^total .*\n(\d.*more groups.*\n)?\d[\d,]* rows in [\d.]+ s, none lost\n\$ *$")
    assert "clock_nanosleep" in ended


def test_lines_are_appended(terminal: Callable[[int], Terminal]) -> None:
    """--lines prints each row while the command still runs. Each line names its stream and its columns."""
    shell = terminal(100)
    shell.type(f"clear; {SCOPE} trace process --lines -- sh -c 'true; ls / > /dev/null; read line'", "Enter")
    shell.wait_for(r"^[\d:.]+  exec  ls +\d+  ppid=\d+  ret=0  filename=\S+  args=ls /$")
    shell.type("Enter")
    shell.wait_for(r"rows in [\d.]+ s, none lost$")


@pytest.mark.parametrize("output", [["--lines"], ["--json", "rows"], ["--folded", "stacks", "--flamegraph", "flames"]])
def test_hostile_names_have_no_effect(tmp_path: Path, output: list[str]) -> None:
    """A program's name, files and arguments cannot set a title, clear the screen or begin a row, in any text output."""
    hostile = "\x1b]0;t\x07\x1b[2J\n\u202e\x9b2J[bold]"
    script = f"import sys; open('/proc/self/comm', 'wb').write({hostile!r}.encode()[:15]); open({hostile!r}, 'w')"
    traced = [*SCOPE.split(), "trace", "process,files,profile", *output, "--", sys.executable, "-c", script, hostile]
    ended = subprocess.run(traced, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    texts = [ended.stdout, ended.stderr, *(file.read_text() for file in tmp_path.iterdir() if file.name != hostile)]
    assert any("u202e" in text for text in texts)
    assert [line for text in texts for line in text.split("\n") if not line.isprintable()] == []
