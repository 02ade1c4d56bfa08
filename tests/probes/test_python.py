"""`python`: every call of a Python function, as Python's own sys.setprofile tells it in the same run."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.probes.recording import ONE_INTERVAL_MS, Record, Recording

from scope_catalogue.errors import InvalidOption

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


def told(out: Path, *, at_def: bool = False) -> list[list[Call]]:
    """The calls of each thread as the program tells them."""
    return [
        [(name, file, first if at_def else line, depth) for name, file, line, first, depth in thread]
        for thread in json.loads(out.read_text())
    ]


def windows(recorded: Recording, expected: list[list[Call]]) -> list[list[Call]]:
    """What was recorded of the threads that call work(). The first fills a cache; the others make the same calls."""
    assert [len(own) > 100 for own in expected] == [True] * len(expected)
    assert all(own == expected[1] for own in expected[1:])
    found = [rows for rows in calls(recorded) if any(row["function"] == "work" for row in rows)]
    return [window(rows, len(expected[min(at, 1)])) for at, rows in enumerate(found)]


@pytest.mark.parametrize("threads", [0, 3])
def test_calls_are_those_that_python_tells(record: Record, tmp_path: Path, threads: int) -> None:
    """Functions, files, lines and nesting of all calls, with generators, exceptions, recursion of 300 calls,
    coroutines and threads, are those that sys.setprofile saw."""
    out = tmp_path / "told"
    recorded = record("python", [DEBIAN, str(PROGRAM), str(out), str(threads), "300"])
    assert recorded.status == 0
    assert windows(recorded, told(out)) == told(out)
    assert recorded.accounts["python_call"].lost == {}
    assert {row["ended"] for row in recorded.rows("python_call")} == {"ended"}


@pytest.mark.parametrize("version", ["3.6", "3.7", "3.8", "3.9", "3.10"])
def test_interpreters_without_usdt_probes(record: Record, tmp_path: Path, version: str) -> None:
    """With evaluate=true, calls of CPython 3.6 to 3.10 are those that sys.setprofile saw, and it is known which of
    them an exception has left. Names that are not ASCII are right or absent."""
    interpreter, out = pyenv(version), tmp_path / "told"
    recorded = record("python", [interpreter, str(PROGRAM), str(out), "3", "30"], evaluate=True)
    assert recorded.status == 0

    def with_ascii(threads: list[list[Call]]) -> list[list[tuple[Any, ...]]]:
        return [[(None if name == "décorée" else name, *rest) for name, *rest in own] for own in threads]

    expected = told(out, at_def=True)
    assert with_ascii(windows(recorded, expected)) == with_ascii(expected)
    here = [row for row in recorded.rows("python_call") if row["file"] == str(PROGRAM)]
    raised = Counter(row["function"] for row in here if row["ended"] == "raised")
    assert raised == {"fails": 4 * 5, "closes": 4, "numbers": 4, "resists": 4}
    assert {row["ended"] for row in here} == {"returned", "raised"}
    assert recorded.accounts["python_call"].lost == {}
    (note,) = recorded.notes
    assert (
        "complete but for calls nested deeper than 64, which are counted as lost: by the evaluation of frames" in note
    )
    assert f"CPython {version} has no USDT probes for calls" in note
    assert recorded.count("python_sample") == 0


def test_evaluations_that_the_kernel_does_not_follow(record: Record) -> None:
    """With evaluate=true, calls nested deeper than 64 are counted as lost: the kernel reports no more returns."""
    code = "def f(n): return f(n - 1) if n else 0\nf(99)\nf(3)"
    recorded = record("python", [pyenv("3.10"), "-S", "-c", code], function=["f"], evaluate=True)
    rows = recorded.rows("python_call")
    assert sorted(row["depth"] for row in rows) == sorted([*range(1, 64), *range(1, 5)])
    assert recorded.accounts["python_call"].lost == {"too_deep": 100 - 63}


SPINS = """
import json, sys, time

def spins(seconds):
    begin = time.thread_time()
    while time.thread_time() < begin + seconds:
        pass
    return time.thread_time() - begin

def short():
    return spins(0.3)

class Thing:
    def long(self):
        return spins(0.9)

json.dump({"short": short(), "long": Thing().long()}, open(sys.argv[1], "w"))
"""


@pytest.mark.alone  # compares times
@pytest.mark.parametrize("version", ["3.8", "3.10", "3.11", "3.12", "3.13"])
@pytest.mark.parametrize("mode", ["events", "summary"])
def test_interpreters_whose_calls_cannot_be_recorded(record: Record, tmp_path: Path, version: str, mode: str) -> None:
    """They are sampled: each function's time is what the program measures. A note says so, and how often."""
    script, out = tmp_path / "spins.py", tmp_path / "told"
    script.write_text(SPINS)
    command = [pyenv(version), str(script), str(out)]
    recorded = record("python", command, rate=997, mode=mode, interval_ms=ONE_INTERVAL_MS)
    stream, weight = ("python_sample", "duration_ns") if mode == "events" else ("python_sample_summary", "total_ns")
    took: Counter[str] = Counter()
    for row in recorded.rows(stream):
        frames = (row["stack"] or "").split(";")
        inside = [at for at, frame in enumerate(frames) if frame.startswith(f"spins ({script}:")]
        assert bool(inside) == ("spins (" in (row["python"] or ""))
        if inside:
            took[frames[inside[0] - 1].partition(" (")[0].rpartition(".")[2]] += row[weight]
    told = {name: seconds * 1e9 for name, seconds in json.loads(out.read_text()).items()}
    assert took.keys() == told.keys()
    assert all(0.8 * told[name] < took[name] < 1.2 * told[name] for name in told)
    assert recorded.accounts[stream].lost == {}
    assert recorded.count("python_call") == recorded.count("python_call_summary") == 0
    (*_, note) = recorded.notes
    assert f"sampled 997 times a second of CPU time: CPython {version} has no USDT probes for calls" in note
    assert ("-o evaluate=true" in note) == (version in ("3.8", "3.10"))


def test_interpreters_whose_calls_are_recorded_are_not_sampled(record: Record, tmp_path: Path) -> None:
    """They may start one that is, in the same trace."""
    script = tmp_path / "spins.py"
    script.write_text(SPINS)
    starts = "import subprocess, sys\ndef short(): subprocess.run(sys.argv[1:])\nshort()"
    command = [DEBIAN, "-c", starts, pyenv("3.12"), str(script), str(tmp_path / "told")]
    recorded = record("python", command, function=["short"], rate=997)
    assert recorded.count("python_call") == 1
    pids = {row["pid"] for row in recorded.rows("python_sample")}
    assert len(pids) == 1
    assert pids.isdisjoint({row["pid"] for row in recorded.rows("python_call")})
    complete, sampled = recorded.notes
    assert complete.startswith(f"{DEBIAN}: complete:")
    assert "libpython3.12" in sampled


def test_interpreters_that_are_not_known(record: Record) -> None:
    """A note says that nothing is recorded, and why."""
    recorded = record("python", [pyenv("3.7"), "-c", "for i in range(10000000): pass"], rate=997)
    (*_, note) = recorded.notes
    assert "not recorded: CPython 3.7 has no USDT probes for calls; the layout of CPython 3.7 is not known; -o" in note
    assert recorded.count("python_sample") == 0


def pyenv(version: str) -> str:
    """An interpreter that pyenv has built."""
    found = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python3"))
    if not found:
        pytest.skip(f"pyenv has no Python {version}")
    return str(found[0])


def test_calls_lie_within_the_calls_around_them(record: Record) -> None:
    """Each call's time lies within that of the call around it, and the time of a call is its own and its calls'."""
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
    command = [DEBIAN, str(PROGRAM), str(tmp_path / "told"), "2", "300"]
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
    command = [DEBIAN, str(PROGRAM), str(tmp_path / "told"), "0", "9"]
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
    assert recorded.notes == [f"{DEBIAN}: complete: every call, by the USDT probes of CPython 3.11"]


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
