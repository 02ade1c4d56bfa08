"""A held command: its process while it waits, its arguments and environment, its failures."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scope_bpf.capture.command import HeldCommand
from scope_bpf.errors import CannotRun

RUN = (  # a process that holds and releases a command, and exits with its status
    "import sys, time\nfrom scope_bpf.capture.command import HeldCommand\n"
    "command = HeldCommand(sys.argv[1:]); command.release()\n"
    "while command.poll() is None: time.sleep(0.01)\nsys.exit(command.poll())\n"
)


def run_to_end(command: HeldCommand) -> int:
    """Releases a command and returns its status."""
    command.release()
    end = time.monotonic() + 60
    while (status := command.poll()) is None:
        assert time.monotonic() < end
        time.sleep(0.005)
    command.close()
    return status


def test_it_waits_under_the_commands_name_in_few_pages() -> None:
    """A held command is a sleeping child of this process, with the command's name and less than 256 KiB of memory."""
    command = HeldCommand(["true"])
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{command.pid}/status").read_text().splitlines())
    assert (status["Name"], status["State"][0], int(status["PPid"])) == ("true", "S", os.getpid())
    assert int(status["VmHWM"].split()[0]) < 256  # KiB
    assert run_to_end(command) == 0
    assert command.failure is None


def test_its_peak_of_memory_is_its_own(tmp_path: Path) -> None:
    """The peak memory of a command does not include this process's memory: it is about the same as under a shell."""
    said = tmp_path / "peak"
    script = (
        "import resource, sys; open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))"
    )
    program = [sys.executable, "-S", "-E", "-c", script, str(said)]
    ballast = bytearray(200 << 20)
    ballast[::4096] = b"x" * len(ballast[::4096])  # makes the pages resident
    assert run_to_end(HeldCommand(program)) == 0
    held = int(said.read_text())
    del ballast
    subprocess.run(["sh", "-c", '"$@"; true', "sh", *program], check=True)
    assert held < 1.5 * int(said.read_text())


def test_two_are_held_at_once() -> None:
    """Each held command has its own release: closing the first ends it while the second still waits."""
    first, second = HeldCommand(["sleep", "100"]), HeldCommand(["sh", "-c", "exit 7"])
    first.close()
    assert first.poll() is not None
    assert run_to_end(second) == 7


def test_they_see_no_descriptor_of_each_other() -> None:
    """A released command inherits no descriptors of other held commands."""
    listing = [sys.executable, "-S", "-E", "-c", "import os, sys; sys.exit(len(os.listdir('/proc/self/fd')))"]
    alone = subprocess.run(listing, close_fds=False).returncode
    held = [HeldCommand(listing) for _ in range(3)]
    assert [run_to_end(command) for command in held] == [alone] * 3


@pytest.mark.parametrize("ignored", [(), (signal.SIGINT, signal.SIGHUP)], ids=["as-usual", "ignored"])
@pytest.mark.parametrize("blocked", [(), (signal.SIGUSR1, signal.SIGTERM)], ids=["open", "blocked"])
def test_signals_are_as_the_shell_left_them(ignored: tuple[int, ...], blocked: tuple[int, ...]) -> None:
    """The command ignores and blocks the same signals as this program at its start. SIGPIPE is reset to its default."""

    def prepare() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    # A shell's builtins read the masks, because Python changes its own before it could read them.
    look = ["sh", "-c", "while read line; do case $line in SigBlk*|SigIgn*) echo $line;; esac; done < /proc/$$/status"]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "check": True, "preexec_fn": prepare}
    directly = _masks(subprocess.run(look, **options).stdout)
    masks = _masks(subprocess.run([sys.executable, "-c", RUN, *look], **options).stdout)
    assert masks == directly
    assert masks["SigIgn"] & 1 << signal.SIGPIPE - 1 == 0
    assert all(masks["SigIgn"] & 1 << number - 1 for number in ignored)
    assert all(masks["SigBlk"] & 1 << number - 1 for number in blocked)


def _masks(status: str) -> dict[str, int]:
    """Masks by name, without the two signals that glibc reserves (nptl): programs started by glibc may ignore them."""
    lines = [line.split(":") for line in status.splitlines()]
    return {name: int(mask, 16) & ~(0b11 << signal.SIGRTMIN - 3) for name, mask in lines}


def test_words_and_environment_arrive_whole(tmp_path: Path) -> None:
    """The command gets the arguments, with any bytes, the environment, and its own name as it was given."""
    script = tmp_path / "say"
    script.write_text("import json, os, sys\njson.dump([sys.argv[1:], dict(os.environ)], open(sys.argv[1], 'w'))")
    words = [str(tmp_path / "said"), "", "two\nlines", os.fsdecode(b"\xff\xfe"), "--"]
    assert run_to_end(HeldCommand([sys.executable, str(script), *words])) == 0
    said, environment = json.loads((tmp_path / "said").read_text())
    assert said == words
    assert environment == dict(os.environ)
    ran = HeldCommand(["sh", "-c", 'exec 2>&-; test "$(tr "\\0" " " < /proc/$$/cmdline | cut -c1-3)" = "sh "'])
    assert run_to_end(ran) == 0


@pytest.mark.parametrize(
    ("content", "number", "status"),
    [("no program", errno.ENOEXEC, 126), ("#!/nonsense/shell\n", errno.ENOENT, 127)],
    ids=["garbage", "no-interpreter"],
)
def test_a_failed_exec_tells_why(tmp_path: Path, content: str, number: int, status: int) -> None:
    """If exec fails, the failure has the error of exec and the exit status that a shell would give."""
    file = tmp_path / "file"
    file.write_text(content)
    file.chmod(0o755)
    command = HeldCommand([str(file)])
    assert run_to_end(command) == status
    assert command.failure is not None
    assert (command.failure.errno, command.failure.status) == (number, status)
    assert str(command.failure) == f"cannot run '{file}': {os.strerror(number)}"


@pytest.mark.parametrize(
    ("name", "number", "status"),
    [("/nonsense", errno.ENOENT, 127), ("nonsense-nobody-has", errno.ENOENT, 127), ("/etc/passwd", errno.EACCES, 126)],
)
def test_what_is_no_command_is_not_held(name: str, number: int, status: int) -> None:
    """A command that does not exist or is not executable is refused at once."""
    with pytest.raises(CannotRun) as refused:
        HeldCommand([name])
    assert (refused.value.errno, refused.value.status) == (number, status)


def test_too_many_words_are_refused() -> None:
    """Arguments that are too long raise CannotRun with the kernel's error."""
    with pytest.raises(CannotRun, match="Argument list too long"):
        HeldCommand(["true", "x" * (1 << 20)])


def test_one_that_is_killed_while_it_waits_tells_its_signal() -> None:
    """Releasing a command that was killed is no error; its status has the signal."""
    command = HeldCommand(["true"])
    os.kill(command.pid, signal.SIGKILL)
    assert run_to_end(command) == -signal.SIGKILL
    assert command.failure is None
