"""Compares SCOPE's records of calls.cu, linked in each way, with the program's own account."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.gpu.report import Report
from tests.gpu.traced import Row, Traced, alone, trace, trace_running

_CALL = ("function", "result", "result_name", "bytes", "ptr", "src", "dst", "kind", "stream")
_SHAPE = tuple(f"{part}_{axis}" for part in ("grid", "block") for axis in "xyz")
_LAUNCH = ("function", "result", "kernel", *_SHAPE, "shared_bytes", "stream")
_HELD = ("live_bytes", "live_count", "peak_bytes", "allocations", "frees", "unknown_frees")
_DELIBERATE = [("cudaMalloc", 2, "cudaErrorMemoryAllocation")]  # more memory than the GPU has
# In a stripped program with a static runtime, SCOPE sees launches by <<<>>> and calls of the driver. Of the
# driver's functions, these are the ones that the runtime does not call itself.
_SEEN_STRIPPED = ("cudaLaunchKernel", "cuLaunchKernel", "cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemRelease")


def check_programs(report: Report, programs: Path, works: Callable[[str], bool]) -> None:
    """Runs and checks each program.

    Args:
        works: whether the runtime of a program linked in this way finds a GPU or a stand-in.
    """
    for linked in ("shared", "static"):
        report.title(f"a program with the runtime {linked}")
        _check(report, trace(programs / linked), works(linked))
    report.title("a program with the runtime static, stripped")
    _check_stripped(report, trace(programs / "stripped"), works("stripped"))
    for linked in ("shared", "static"):
        report.title(f"a program with the runtime {linked}, that runs already")
        _check(report, trace_running(programs / linked), works(linked))


def _check(report: Report, traced: Traced, works: bool) -> None:
    if not _check_outcome(report, traced, works):
        return
    report.check("calls", _columns(traced.said("cuda_call"), _CALL), _columns(traced.rows("cuda_call"), _CALL))
    _check_launches(report, traced.said("cuda_launch"), traced.rows("cuda_launch"))
    report.check("memory held", _held(traced.said("cuda_memory")), _held(traced.rows("cuda_memory")))
    (leaked,) = traced.said("cuda_live")
    last = {row["stack_id"]: row for row in traced.rows("cuda_live")}
    leaks = [row for row in last.values() if (row["stack"] or "").endswith(leaked["by"])]
    report.check(
        "leaks of the function that leaks",
        (leaked["live_bytes"], leaked["live_count"]),
        (sum(row["live_bytes"] for row in leaks), sum(row["live_count"] for row in leaks)),
    )
    _tell(report, traced)


def _check_stripped(report: Report, traced: Traced, works: bool) -> None:
    if not _check_outcome(report, traced, works):
        return
    calls = _of_stripped(traced.said("cuda_call")), _of_stripped(traced.rows("cuda_call"))
    report.check("calls of the driver", *(_columns(rows, _CALL) for rows in calls))
    _check_launches(report, _of_stripped(traced.said("cuda_launch")), _of_stripped(traced.rows("cuda_launch")))
    others = Counter(row["function"] for row in traced.rows("cuda_call") if row["function"] not in _SEEN_STRIPPED)
    report.fact(f"other calls of the driver: {_counts(others)}")
    _tell(report, traced)


def _of_stripped(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["function"] in _SEEN_STRIPPED]


def _check_outcome(report: Report, traced: Traced, works: bool) -> bool:
    """Returns False if the program broke off: then nothing can be compared."""
    report.check("it ran to its end", 0, traced.status)
    if works:
        said = traced.said("cuda_call") + traced.said("cuda_launch")
        failed = [(row["function"], row["result"], row["result_name"]) for row in said if row["result"]]
        report.check("nothing failed but what was meant to", _DELIBERATE, failed)
    report.check("nothing is lost", {}, traced.lost)
    return traced.status == 0


def _check_launches(report: Report, said: Sequence[Row], recorded: Sequence[Row]) -> None:
    report.check("launches", _columns(said, _LAUNCH), _columns(recorded, _LAUNCH))


def _columns(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """The named columns of each row, without the absent ones."""
    return [{name: row[name] for name in names if row.get(name) is not None} for row in rows]


def _held(rows: Sequence[Row]) -> dict[str, Row]:
    """The last state of each kind of memory."""
    return {row["memory"]: {name: row[name] for name in _HELD} for row in rows}


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


def _tell(report: Report, traced: Traced) -> None:
    """Prints facts without an expected value."""
    nested = Counter(row["function"] for stream in ("cuda_call", "cuda_launch") for row in traced.nested(stream))
    report.fact(f"calls that the program's calls made: {_counts(nested)}")
    launches = traced.rows("cuda_launch")
    sources = sorted({f"{row['kernel']} by {row['name_source']}" for row in launches})
    report.fact(f"what gave the names: {'; '.join(sources)}")
    asked = [row for row in launches if row["function"] == "cudaLaunchKernel"]
    told = [row for row in traced.said("cuda_launch") if row["function"] == "cudaLaunchKernel"]
    equal = sum(row["handle"] == said["host_function"] for row, said in zip(asked, told, strict=False))
    report.fact(f"handles of <<<>>> that are the host function's address: {equal} of {len(told)}")
    for info in traced.said("memory_info"):
        report.fact(f"cudaMemGetInfo: {info['fewer_free']} bytes less after a cudaMalloc of {info['allocated']}")


def tell_costs(report: Report, programs: Path) -> None:
    """Prints the time of calls, unrecorded and recorded."""
    report.title("what recording costs")
    for before, after in zip(alone(programs / "cost"), trace(programs / "cost").account, strict=True):
        what, bare, recorded = before["what"], before["ns"], after["ns"]
        report.fact(f"{what}: {bare / 1000:.2f} us, recorded {recorded / 1000:.2f} us: {recorded / bare:.2f} times")
