"""Results of benchmarks, and running of workloads."""

import re
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LOOP_CPU, TRACER_CPU = 1, 0


@dataclass(frozen=True)
class Result:
    """A line of the table: the measured value and its target; `met` is None if there is no target."""

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
    """The command that makes `calls` calls on its own core."""
    return ["/usr/bin/taskset", "-c", str(LOOP_CPU), loop_program(), str(calls), *([str(rate)] if rate else [])]


def on_tracer_cpu(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs a tracer and its children on the other core; the loop moves itself to its own core."""
    pinned = ["/usr/bin/taskset", "-c", str(TRACER_CPU), *command]
    return subprocess.run(pinned, capture_output=True, text=True, check=True)


def recorded(said: str) -> tuple[int, int]:
    """Recorded and lost rows, from what `scope trace` wrote to standard error; its last line tells them."""
    last = said.strip().rpartition("\n")[2]
    if not (rows := re.match(r"([\d,]+) rows? in ", last)):
        raise ValueError(f"no summary line: {said[-200:]!r}")
    lost = re.findall(r"([\d,]+) lost", last)
    return int(rows[1].replace(",", "")), sum(int(count.replace(",", "")) for count in lost)


def ns_per_call(output: str) -> float:
    """The loop's result, found in the tracer's output."""
    for line in output.splitlines():
        try:
            return float(line)
        except ValueError:
            continue
    raise ValueError(f"the loop printed no time: {output[:200]!r}")


def median_of(rounds: int, contenders: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """The median of each contender. They take turns, so that noise affects all of them."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            found[name].append(run())
    return {name: statistics.median(values) for name, values in found.items()}
