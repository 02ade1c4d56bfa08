"""Runs a program under the `cuda` probe, from its start or while it runs already."""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.probes.recording import Recording

from scope_bpf.capture import functions
from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

Row = dict[str, Any]
_LONGEST_S = 300.0
functions.SETTLE_S = 60.0  # a slow machine has the time that it needs


@dataclass
class Traced:
    """A program's own account, and SCOPE's recording of the program."""

    status: int | None
    account: list[Row]
    recording: Recording

    def said(self, row: str) -> list[Row]:
        """The account's lines of one kind."""
        return [line for line in self.account if line.get("row") == row]

    def rows(self, stream: str) -> list[Row]:
        """Recorded rows, without nested calls."""
        return [row for row in self.recording.rows(stream) if not row.get("nested")]

    def nested(self, stream: str) -> list[Row]:
        """Recorded rows of nested calls: other recorded calls made them."""
        return [row for row in self.recording.rows(stream) if row["nested"]]

    @property
    def lost(self) -> dict[str, int]:
        """Lost events by stream and reason, as the probe counted them."""
        books = self.recording.accounts.items()
        return {f"{name}/{reason}": count for name, book in books for reason, count in book.lost.items()}


def trace(*command: object) -> Traced:
    """Traces a command from its start. Its last argument is the file for its account."""
    with tempfile.NamedTemporaryFile() as file:
        held = HeldCommand([str(word) for word in (*command, file.name)])
        recording = Recording(held.pid)
        try:
            with _tracer(held.pid, held.path) as tracer:
                tracer.start()
                held.release()
                _record(tracer, recording, held.poll)
        finally:
            held.close()
        return Traced(held.poll(), _account(file.name), recording)


def trace_running(program: Path) -> Traced:
    """Traces a running program. The program prints a line, waits for the end of its input, and goes on."""
    with tempfile.NamedTemporaryFile() as file:
        command = [str(program), file.name, "wait"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin
            assert process.stdout
            process.stdout.readline()
            recording = Recording(process.pid)
            try:
                with _tracer(process.pid) as tracer:
                    tracer.start()
                    process.stdin.close()
                    _record(tracer, recording, process.poll)
            finally:
                process.kill()
        return Traced(process.returncode, _account(file.name), recording)


def alone(*command: object) -> list[Row]:
    """The account of a command that runs without SCOPE."""
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([str(word) for word in (*command, file.name)], check=True, timeout=_LONGEST_S)
        return _account(file.name)


def _tracer(pid: int, command: str = "") -> Tracer:
    probe = probe_named("cuda")
    return Tracer(probe, parse_options(probe.options, {}), Target(pid=pid), command=command)


def _record(tracer: Tracer, recording: Recording, poll: Callable[[], int | None]) -> None:
    """Records until the program has ended."""
    deadline = time.monotonic() + _LONGEST_S
    while poll() is None:
        if time.monotonic() > deadline:
            os.kill(recording.pid, signal.SIGKILL)
        for raw in tracer.poll(50):
            recording.add(raw)
    for raw in tracer.finish():
        recording.add(raw)
    recording.accounts = tracer.accounts()


def _account(path: str) -> list[Row]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]
