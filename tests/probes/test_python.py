"""`python`: every call of a Python function, as Python's own sys.setprofile tells it in the same run."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.probes.recording import ONE_INTERVAL_MS, Record, Recording

from scope_bpf.errors import InvalidOption

PROGRAM = Path(__file__).parent / "workloads/python_calls.py"
DEBIAN = "/usr/bin/python3.11"
Call = tuple[str, str, int, int]  # function, file, line, depth


@pytest.fixture(autouse=True)
def _debian() -> None:
    if not Path(DEBIAN).exists():
        pytest.skip(f"{DEBIAN} is missing")


def calls(recorded: Recording) -> list[list[dict[str, Any]]]:
    """The calls of each thread, in order of their begin, without those of the profiling function."""
    threads: dict[int, list[dict[str, Any]]] = {}
    for row in sorted(recorded.rows("python_call"), key=lambda row: (row["ktime_ns"], row["depth"])):
        if row["function"] != "profile":
            threads.setdefault(row["tid"], []).append(row)
    return sorted(threads.values(), key=lambda rows: int(rows[0]["ktime_ns"]))


def window(rows: list[dict[str, Any]], length: int) -> list[Call]:
    """As many calls from the first of work() on; depths are counted from there."""
    begin = next(at for at, row in enumerate(rows) if row["function"] == "work")
    base = rows[begin]["depth"]
    return [(row["function"], row["file"], row["line"], row["depth"] - base) for row in rows[begin : begin + length]]


def told(out: Path) -> list[list[Call]]:
    """The calls of each thread as the program tells them."""
    return [[(name, file, line, depth) for name, file, line, depth in thread] for thread in json.loads(out.read_text())]


@pytest.mark.parametrize("threads", [0, 3])
def test_calls_are_those_that_python_tells(record: Record, tmp_path: Path, threads: int) -> None:
    """Functions, files, lines and nesting of all calls, with generators, exceptions, recursion of 300 calls,
    coroutines and threads, are those that sys.setprofile saw."""
    out = tmp_path / "told"
    recorded = record("python", [DEBIAN, str(PROGRAM), str(out), str(threads)])
    assert recorded.status == 0
    expected, found = told(out), [rows for rows in calls(recorded) if any(row["function"] == "work" for row in rows)]
    assert [len(own) > 400 for own in expected] == [True] * (1 + threads)
    assert all(own == expected[1] for own in expected[1:])
    # The first thread fills a cache; after that, each of the other threads makes the same calls.
    assert [window(rows, len(expected[min(at, 1)])) for at, rows in enumerate(found)] == [
        expected[min(at, 1)] for at in range(1 + threads)
    ]
    assert recorded.accounts["python_call"].lost == {}
    assert {row["ended"] for row in recorded.rows("python_call")} == {"ended"}


def test_calls_lie_within_the_calls_around_them(record: Record, tmp_path: Path) -> None:
    """Each call's time lies within that of the call around it, and the time of a call is its own and its calls'."""
    (rows,) = calls(record("python", [DEBIAN, str(PROGRAM), str(tmp_path / "told")]))
    around: list[dict[str, Any]] = []
    inside: Counter[int] = Counter()
    everything = record("python", [DEBIAN, "-S", "-c", "def f(n): return f(n - 1) if n else 0\nf(90)"])
    rows = sorted(everything.rows("python_call"), key=lambda row: (row["ktime_ns"], row["depth"]))
    for row in rows:
        del around[row["depth"] :]
        assert len(around) == row["depth"]
        if around:
            outer = around[-1]
            assert outer["ktime_ns"] <= row["ktime_ns"]
            assert row["ktime_ns"] + row["duration_ns"] <= outer["ktime_ns"] + outer["duration_ns"]
            inside[id(outer)] += row["duration_ns"]
        around.append(row)
    assert all(row["self_ns"] == row["duration_ns"] - inside[id(row)] for row in rows)


def test_a_summary_counts_the_same(record: Record, tmp_path: Path) -> None:
    """The summary counts each function's calls, and its total and own time, as the events do."""
    command = [DEBIAN, str(PROGRAM), str(tmp_path / "told"), "2"]
    here = [str(PROGRAM)]
    events = record("python", command, file_prefix=here).rows("python_call")
    counted = Counter((row["function"], row["file"]) for row in events)
    assert {file for _, file in counted} == set(here)
    summary = record("python", command, file_prefix=here, mode="summary", interval_ms=ONE_INTERVAL_MS)
    rows = {(row["function"], row["file"]): row for row in summary.rows("python_call_summary")}
    assert {name: row["calls"] for name, row in rows.items()} == counted
    assert all(sum(row["latency"]) == row["calls"] for row in rows.values())
    assert all(0 < row["self_ns"] <= row["total_ns"] for row in rows.values())
    assert counted["recurses", here[0]] == 3 * 301
    assert summary.accounts["python_call_summary"].lost == {}


def test_filters_in_the_kernel(record: Record, tmp_path: Path) -> None:
    """Functions are chosen by the beginning of the file's name, by their own name, and by duration."""
    command = [DEBIAN, str(PROGRAM), str(tmp_path / "told")]
    by_name = record("python", command, function=["sale", "décorée"])
    assert Counter(row["function"] for row in by_name.rows("python_call")) == {"sale": 7, "décorée": 1}
    both = record("python", command, function=["dumps", "sale"], file_prefix=["/usr/lib/python3.11/json"])
    (row,) = both.rows("python_call")
    assert (row["function"], row["file"]) == ("dumps", "/usr/lib/python3.11/json/__init__.py")
    slow = record(
        "python", [DEBIAN, "-c", "import time\ndef f(s): time.sleep(s)\nf(0.05); f(0); f(0.05)"],
        min_duration_ns=50_000_000, function=["f"],
    )  # fmt: skip
    assert len(slow.rows("python_call")) == 2
    assert by_name.accounts["python_call"].emitted == 8


def test_deep_recursion(record: Record) -> None:
    """Calls are nested as deep as Python allows."""
    code = "import sys\nsys.setrecursionlimit(20000)\ndef f(n): return f(n - 1) if n else 0\nf(7000)"
    recorded = record("python", [DEBIAN, "-c", code], function=["f"])
    depths = sorted(row["depth"] for row in recorded.rows("python_call"))
    assert depths == list(range(depths[0], depths[0] + 7001))
    assert recorded.accounts["python_call"].lost == {}


def test_a_process_that_leaves_its_calls(record: Record) -> None:
    """Calls of a process that ends in them, or executes another program, are counted as lost: their names are gone."""
    code = "import os\ndef f(n):\n  return f(n - 1) if n else os._exit(3)\nf(5)"
    recorded = record("python", [DEBIAN, "-S", "-c", code], function=["f"])
    assert (recorded.status, recorded.count("python_call")) == (3, 0)
    assert recorded.accounts["python_call"].lost == {"left": 7}  # with the module
    code = "import os\ndef f(): os.execv('/bin/true', ['true'])\nf()"
    assert record("python", [DEBIAN, "-S", "-c", code]).accounts["python_call"].lost == {"left": 2}


def test_it_is_told_how_each_interpreter_is_seen(record: Record) -> None:
    """A note says whether the calls of an interpreter are recorded."""
    recorded = record("python", [DEBIAN, "-c", "pass"])
    assert recorded.notes == [f"{DEBIAN}: every call, by the USDT probes of CPython 3.11"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"function": ["f"] * 3 + ["g", "h", "i", "j"]}, "4 functions can be given, not 5"),
        ({"function": ["f" * 256]}, "functions have at most 255 bytes"),
        ({"file_prefix": ["/" + "f" * 1023]}, "prefixes of files have at most 1023 bytes"),
    ],
)
def test_wrong_options(record: Record, options: dict[str, Any], said: str) -> None:
    """What the kernel could not compare is refused at once."""
    with pytest.raises(InvalidOption, match=said):
        record("python", [DEBIAN, "-c", "pass"], **options)
