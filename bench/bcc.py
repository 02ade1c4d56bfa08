"""The CPU time that tools of bcc and our probes add to what they watch: a connection, a disk read, an allocation.

It measures the tools that are on PATH and start on this kernel: those of Debian's libbpf-tools, or else of bpfcc-tools,
which needs the kernel's headers. Of the others it tells why not. `biosnoop` needs a kernel with kprobes, and a device
to read from in SCOPE_BENCH_DEVICE, best that of null_blk.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measure import LOOP_CPU, Result, at_most, median_of
from bench.watched import ns_under
from scope_bpf.probes import probe_named

ROUNDS = 5
DEVICE = os.environ.get("SCOPE_BENCH_DEVICE", "")
_HERE = Path(__file__).parent
_BEGINS_S = 180.0  # bpfcc-tools compile their programs when they start


@dataclass(frozen=True)
class Pair:
    """A tool of bcc and the probe that answers the same question, and what both watch."""

    tool: str
    probe: str
    what: str
    program: str
    words: tuple[str, ...]
    begins: str  # what the tool prints once it is attached
    of_process: bool  # the tool watches one process, by -p; else the machine


PAIRS = (
    Pair("tcplife", "net", "a TCP connection, both ends", "network", ("connections", "5000"), "PID", False),
    Pair("biosnoop", "block", "a read of 4 KiB from a device", "bcc", ("reads", "20000", DEVICE), "TIME", False),
    Pair("memleak", "heap", "an allocation and its free", "bcc", ("allocations", "50000"), "Top", True),
)


def run() -> list[Result]:
    """What each adds, and the ratio."""
    results = []
    with tempfile.TemporaryDirectory(prefix="scopebench") as folder:
        for name in ("network", "bcc"):
            subprocess.run(["gcc", "-O2", "-o", f"{folder}/{name}", _HERE / f"{name}.c"], check=True)
        for pair in PAIRS:
            try:
                results += _compared(pair, Path(folder))
            except _CannotRun as error:
                results.append(Result(f"{pair.tool} of bcc", f"not measured: {error}"))
    return results


class _CannotRun(Exception):
    pass


def _compared(pair: Pair, folder: Path) -> list[Result]:
    if not all(pair.words):
        raise _CannotRun("SCOPE_BENCH_DEVICE names no device")
    words = ["taskset", "-c", str(LOOP_CPU), f"{folder}/{pair.program}", *pair.words]
    tool = _that_runs(pair, folder)
    contenders: dict[str, Callable[[], float]] = {
        "bare": lambda: ns_under(None, words),
        pair.probe: lambda: ns_under(probe_named(pair.probe), words),
        tool: lambda: _ns_under_tool(tool, pair, words, folder),
    }
    ns = median_of(ROUNDS, contenders)
    told = ", ".join(f"{name} {value:,.0f}" for name, value in ns.items())
    ratio = (ns[pair.probe] - ns["bare"]) / (ns[tool] - ns["bare"])
    return [
        Result(f"CPU time of {pair.what}, ns", told),
        at_most(f"... {pair.probe} adds, compared with {tool}", ratio, 0.5, "×"),
    ]


def _that_runs(pair: Pair, folder: Path) -> str:
    # The first of the two that begins here.
    why = "it is not installed"
    for tool in filter(shutil.which, (pair.tool, f"{pair.tool}-bpfcc")):
        try:
            _ns_under_tool(tool, pair, ["echo", "0"], folder)
        except _CannotRun as error:
            why = str(error)
        else:
            return tool
    raise _CannotRun(why)


def _ns_under_tool(tool: str, pair: Pair, words: list[str], folder: Path) -> float:
    command = ["sh", "-c", "read go && exec " + " ".join(words)]
    with ExitStack() as cleanup:
        held = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cleanup.enter_context(held)
        target = ["-p", str(held.pid)] if pair.of_process else []
        cleanup.enter_context(_running([tool, *target], pair.begins, folder / "said"))
        return float(held.communicate("\n")[0])


@contextmanager
def _running(command: list[str], begins: str, said: Path) -> Iterator[None]:
    # While inside, the tool runs and is attached.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with said.open("w") as output:
        tool = subprocess.Popen(["stdbuf", "-oL", *command], stdout=output, stderr=output, env=environment)
    try:
        end = time.monotonic() + _BEGINS_S
        while begins not in said.read_text():
            if tool.poll() is not None or time.monotonic() > end:
                raise _CannotRun(said.read_text().strip().rpartition("\n")[2])
            time.sleep(0.1)
        yield
    finally:
        tool.send_signal(signal.SIGINT)
        tool.wait()
