"""A daemon of `scope` as a part of the stack."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from scope_cli.configuration.daemons import DAEMONS
from scope_cli.flag import Flag
from scope_cli.stack.supervisor import PartEnded
from scope_server.store.postgres.log import LogFile

STOP_S = 30.0


class Child:
    """A command in its own process, with its output in a log file.

    Args:
        name: for people.
        command: the program and its arguments.
        log: the log file.
        environment: variables in addition to those of this process.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self._command, self._environment = command, environment
        self._log = LogFile(log)
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def of_scope(cls, subcommand: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> "Child":
        """A daemon of `scope`, whose settings are only those in `arguments`."""
        command = [sys.executable, "-m", "scope_cli.main", subcommand, "--config", os.devnull, *arguments]
        return cls(subcommand, command, log, environment)

    @property
    def pid(self) -> int | None:
        """The process's pid; None if it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self, stop: Flag) -> None:
        """Starts the process, without waiting until it is ready.

        Raises:
            PartEnded: the process cannot be started.
        """
        try:
            with self._log.opened() as output:
                self._process = subprocess.Popen(
                    # The kernel ends it when we end, so that no agent continues to record unnoticed.
                    ["setpriv", "--pdeathsig", "TERM", *self._command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**_inherited(), **self._environment},
                    start_new_session=True,  # Ctrl-C in the terminal must only reach us; we stop it cleanly
                )
        except OSError as error:
            raise PartEnded("not started", str(error)) from None

    def upkeep(self) -> None:
        """Limits the size of its log."""
        self._log.rotate()

    def ending(self) -> PartEnded:
        """How the process ended, with its last line of output. An exit status above 0 counts as a refusal."""
        status = self._process.wait() if self._process else 0
        said = self._log.said()
        last = said[-1].strip().removeprefix("scope: ") if said else ""
        if status < 0:
            return PartEnded(f"killed by signal {-status}", last)
        return PartEnded(f"status {status}", last, refused=status > 0)

    def stop(self, hurry: Flag) -> None:
        """Stops the process cleanly, or by force if that takes too long."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        end = time.monotonic() + STOP_S
        while self._process.poll() is None:
            if hurry.is_set() or time.monotonic() > end:
                self._process.kill()
                self._process.wait()
                return
            time.sleep(0.02)


def _inherited() -> dict[str, str]:
    """This process's variables, without settings of the daemons."""
    prefixes = tuple(daemon.prefix for daemon in DAEMONS.values())
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
