"""Starts a command, but holds it until tracing has begun."""

import errno
import os
import shutil
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from scope_bpf.errors import CannotRun, NotSupported

HOLD = Path(__file__).parents[1] / "objects" / "hold"  # binding/hold.c
_IGNORED_BY_PYTHON = (
    signal.SIGPIPE,
    signal.SIGXFSZ,
)  # Python always ignores these; its own children get the defaults too


class HeldCommand:
    """A child process that waits for `release`, then executes the command. `close` ends it if it still waits.

    The child shows no trace of this process: a small helper program forks it, it has the command's name from the start,
    and its first call after the release is its exec. It ignores and blocks the same signals as this process was
    started with, but has the default action for SIGPIPE and SIGXFSZ.

    Args:
        output: the descriptor that is the command's standard output; None: this process's own.

    Attributes:
        path: the executable file.
        failure: why the command could not be executed; set when `poll` returns a status; None if it was executed.

    Raises:
        CannotRun: the command does not exist, is not a program, or no more processes can be created.
        NotSupported: the helper program was not built.
    """

    def __init__(self, command: Sequence[str], output: int | None = None) -> None:
        self.path = _find(command[0])
        self.failure: CannotRun | None = None
        self._name = command[0]
        self._status: int | None = None
        self._released = False
        self._socket, theirs = socket.socketpair()
        try:
            with theirs:
                starter = self._start(theirs.fileno(), command, output)
            told = self._socket.recv(4)
            _, status = os.waitpid(starter, 0)
            if not told:
                raise CannotRun(self._name, max(os.waitstatus_to_exitcode(status), 0) or errno.EAGAIN)
        except BaseException:
            self._socket.close()
            raise
        self.pid = _integer(told)
        _wait_until_asleep(self.pid)

    def _start(self, fd: int, command: Sequence[str], output: int | None) -> int:
        words = [str(HOLD), str(fd), self.path, *command]
        # Inherited by the helper, but by no other program started meanwhile.
        actions = [(os.POSIX_SPAWN_DUP2, fd, fd)]
        if output is not None:
            actions.append((os.POSIX_SPAWN_DUP2, output, 1))
        try:
            return os.posix_spawn(HOLD, words, os.environ, file_actions=actions, setsigdef=_IGNORED_BY_PYTHON)
        except FileNotFoundError:
            raise NotSupported(f"{HOLD} is missing; run `make hold`") from None
        except OSError as error:
            raise CannotRun(self._name, error.errno or errno.EAGAIN) from None

    def release(self) -> None:
        """Lets the command run."""
        self._released = True
        with suppress(BrokenPipeError):  # it ended while it waited; `poll` reports that
            self._socket.send(b"\n")

    def poll(self) -> int | None:
        """The exit status, or the negative number of the signal that ended the command; None while it runs."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
                self.failure = self._read_failure()
                self._socket.close()
        return self._status

    def _read_failure(self) -> CannotRun | None:
        try:
            told = self._socket.recv(4, socket.MSG_DONTWAIT)
        except OSError:  # closed, or the child ended before it read the release
            return None
        return CannotRun(self._name, _integer(told)) if told else None

    def close(self) -> None:
        """Ends the command if it still waits for its release; a running command continues. May be called again."""
        self._socket.close()
        if not self._released and self._status is None:
            _, status = os.waitpid(self.pid, 0)
            self._status = os.waitstatus_to_exitcode(status)


def _find(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise CannotRun(name, errno.EACCES if "/" in name and Path(name).exists() else errno.ENOENT)
    return path


def _wait_until_asleep(pid: int) -> None:
    """Waits until the child is in its waiting call: its calls before that do not belong to the command."""
    while Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] in (b"R", b"D"):
        time.sleep(0.001)


def _integer(native: bytes) -> int:
    return int.from_bytes(native, "little")  # true for all architectures that hold.c supports
