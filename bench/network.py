"""The cost of `net` and `udp`: CPU time added to writes of a stream, to the life of a connection, to a datagram."""

import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.measure import LOOP_CPU, Result, at_most, median_of
from bench.watched import ns_under
from scope_bpf.probes import probe_named

ROUNDS = 9
WRITES, CONNECTIONS, DATAGRAMS = 20_000, 5_000, 100_000
_SOURCE = Path(__file__).parent / "network.c"


def run() -> list[Result]:
    """Ratios and differences to the same program without a tracer; they take turns."""
    with tempfile.TemporaryDirectory(prefix="scopebench") as folder:
        program = f"{folder}/network"
        subprocess.run(["gcc", "-O2", "-o", program, _SOURCE], check=True)
        measured = partial(_measured, program)
        write = median_of(ROUNDS, {name: measured(name, "stream", WRITES) for name in ("bare", "net")})
        life = median_of(ROUNDS, {name: measured(name, "connections", CONNECTIONS) for name in ("bare", "net")})
        datagram = median_of(ROUNDS, {name: measured(name, "datagrams", DATAGRAMS) for name in ("bare", "udp", "net")})
    return [
        Result("CPU time of a write of 128 KiB and its reads, ns", _named(write)),
        at_most("... with net", write["net"] / write["bare"], 1.02, "×"),
        Result("CPU time of a TCP connection, both ends, ns", _named(life)),
        at_most("... net adds", (life["net"] - life["bare"]) / 1000, 3, " µs"),
        Result("CPU time of a UDP datagram, sent and received, ns", _named(datagram)),
        at_most("... with udp", datagram["udp"] / datagram["bare"], 1.2, "×"),
        at_most("... with net", datagram["net"] / datagram["bare"], 1.05, "×"),
    ]


def _measured(program: str, name: str, what: str, count: int) -> Callable[[], float]:
    """Runs the program under a probe; "bare": under none."""
    words = ["taskset", "-c", str(LOOP_CPU), program, what, str(count)]
    return lambda: ns_under(None if name == "bare" else probe_named(name), words)


def _named(ns: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:,.0f}" for name, value in ns.items())
