"""What a benchmark gives back, and how a workload is run."""

import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LOOP_CPU, TRACER_CPU = 1, 0


@dataclass(frozen=True)
class Result:
    """A line of the table: what was measured, beside what was wanted; `met` is None where nothing was."""

    what: str
    measured: str
    wanted: str = ""
    met: bool | None = None


def at_least(what: str, value: float, wanted: float, unit: str = "×") -> Result:
    """A result that should not be below a value."""
    return Result(what, f"{value:.2f}{unit}", f"≥ {wanted:g}{unit}", value >= wanted)


def at_most(what: str, value: float, wanted: float, unit: str = "") -> Result:
    """A result that should not be above a value."""
    return Result(what, f"{value:.3g}{unit}", f"≤ {wanted:g}{unit}", value <= wanted)


@cache
def loop_program() -> str:
    """The compiled loop.c."""
    program = Path(tempfile.mkdtemp(prefix="scope-bench")) / "loop"
    subprocess.run(["gcc", "-O2", "-o", program, Path(__file__).parent / "loop.c"], check=True)
    return str(program)


def loop(calls: int, rate: int = 0) -> list[str]:
    """The command that makes so many calls on a core of its own."""
    return ["/usr/bin/taskset", "-c", str(LOOP_CPU), loop_program(), str(calls), *([str(rate)] if rate else [])]


def on_tracer_cpu(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs a tracer, and what it starts, on the other core; the loop puts itself on its own."""
    pinned = ["/usr/bin/taskset", "-c", str(TRACER_CPU), *command]
    return subprocess.run(pinned, capture_output=True, text=True, check=True)


def ns_per_call(output: str) -> float:
    """What the loop printed, found among what its tracer printed."""
    for line in output.splitlines():
        try:
            return float(line)
        except ValueError:
            continue
    raise ValueError(f"the loop printed no time: {output[:200]!r}")


def median_of(rounds: int, contenders: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Each contender's median; they take turns, so that noise falls on all of them."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            found[name].append(run())
    return {name: statistics.median(values) for name, values in found.items()}
