"""Recorded and lost events at each offered rate, as a table and a picture."""

import sys
from pathlib import Path

from bench.measure import Result, loop, ns_per_call, on_tracer_cpu, recorded

RATES = (10_000, 100_000, 300_000, 1_000_000, 2_000_000, 3_000_000, 0)  # 0: as fast as possible
SECONDS = 2
PICTURE = Path(__file__).parent / "results" / "loss_curve.png"


def run() -> list[Result]:
    """A result for each offered rate."""
    points = [_point(rate) for rate in RATES]
    _draw(points)
    return [
        Result(f"offered {offered / 1e6:.2f} M/s", f"{rows:,} recorded, {lost:,} lost", "0 lost", not lost)
        for offered, rows, lost in points
    ]


def _point(rate: int) -> tuple[float, int, int]:
    calls = (rate or 4_000_000) * SECONDS
    trace = [sys.executable, "-m", "scope_cli.main", "trace", "syscalls", "-o", "names=getppid"]
    ran = on_tracer_cpu([*trace, "--", *loop(calls, rate)])
    return 1e9 / ns_per_call(ran.stdout), *recorded(ran.stderr)


def _draw(points: list[tuple[float, int, int]]) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    offered = [rate / 1e6 for rate, _, _ in points]
    kept = [rate / 1e6 * got / (got + lost) for rate, got, lost in points]
    figure, axes = plt.subplots(figsize=(6, 4))
    axes.plot(offered, offered, "--", color="grey", label="offered")
    axes.plot(offered, kept, "o-", label="recorded")
    axes.set_xlabel("offered, million events/s")
    axes.set_ylabel("recorded, million events/s")
    axes.legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=100, bbox_inches="tight")
