"""`span`: each call of the declared functions is recorded as the program itself tells it, and no program is harmed."""

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.probes.missed_switch import record_with_a_missed_switch
from tests.probes.recording import ONE_INTERVAL_MS, Record

from scope_bpf.capture import slowdown
from scope_bpf.errors import FunctionNotFound

WORKLOADS = Path(__file__).parent / "workloads"

TOLD = (
    "spans:told small=arg0:i8 middle=arg1:u32 text=arg2:str first=arg3->0:i32 "
    "third=arg3->0x6:u8 number=arg3->8->0:i64 a9=arg9:i64"
)


@pytest.fixture(scope="module")
def cpp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C++ program."""
    program = tmp_path_factory.mktemp("cpp") / "spans_cpp"
    subprocess.run(["g++", "-O1", "-o", program, WORKLOADS / "spans.cpp"], check=True)
    return program


def args(row: dict[str, Any]) -> dict[str, str]:
    """The kept numbers of a row."""
    return dict(word.split("=") for word in (row["args"] or "").split())


def test_numbers_and_texts_are_the_programs_own(record: Record, workload: Callable[[str], str], tmp_path: Path) -> None:
    """Arguments in registers and on the stack, memory behind them, and texts are those that the program tells."""
    out = tmp_path / "told"
    recorded = record("span", [workload("spans"), "told", "101", str(out)], functions=[TOLD])
    own = [json.loads(line) for line in out.read_text().splitlines()]
    rows = recorded.rows("span")[1:]  # the first call warms up: a text in a page that was never touched is unreadable
    assert len(own) == len(rows) == 101
    for told, row in zip(own, rows, strict=True):
        expected = {name: str(told[name]) for name in ("small", "middle", "first", "third", "number", "a9")}
        if told["text"] % 2 == 0:
            del expected["number"]  # behind a null pointer
        expected["small"] = str((told["small"] + 128) % 256 - 128)
        assert args(row) == expected
        assert row["text"] == f'call "{told["text"]}" é'
        assert (row["function"], row["file"], row["depth"], row["ended"]) == ("told", workload("spans"), 0, "returned")
    assert recorded.accounts["span"].lost == {}


def test_results_and_types(record: Record, workload: Callable[[str], str]) -> None:
    """Results may be numbers, pointers and texts; memory has floating-point numbers, too."""
    told = "spans:told r=ret:i64 low=ret:i16 real=arg3->8->16:f64 small=arg3->8->24:f32 p=arg3:ptr b=arg8:bool"
    recorded = record("span", [workload("spans"), "told", "4"], functions=[told])
    rows = [args(row) for row in recorded.rows("span")[1:]]
    results = [-i * 1000003 for i in range(4)]
    assert [int(row["r"]) for row in rows] == results
    assert [int(row["low"]) for row in rows] == [(result + (1 << 15)) % (1 << 16) - (1 << 15) for result in results]
    assert [row.get("real") for row in rows] == [None, "-2.5", None, "-2.5"]
    assert [row.get("small") for row in rows] == [None, "0.75", None, "0.75"]
    assert [row["b"] for row in rows] == ["false", "true", "true", "true"]
    assert len({row["p"] for row in rows}) == 1
    assert int(rows[0]["p"], 16) > 1 << 32
    first = args(recorded.rows("span")[0])
    assert first == {"r": "0", "low": "0", "p": "0x0", "b": "false"}
    names = record("span", [workload("spans"), "names"], functions=["spans:name_of number=arg0:i32 name=ret:str"])
    assert [(args(row)["number"], row["text"]) for row in names.rows("span")] == [
        ("0", "zero"),
        ("1", "one"),
        ("2", "two"),
    ]


def test_recursion(record: Record, workload: Callable[[str], str]) -> None:
    """Each call of a recursive function has its own argument, result, depth and duration."""
    recorded = record("span", [workload("spans"), "fib", "9"], functions=["spans:fib n=arg0:i32 r=ret:i64"])
    fib = [0, 1]
    while len(fib) < 10:
        fib.append(fib[-1] + fib[-2])
    rows = recorded.rows("span")
    assert Counter(args(row)["n"] for row in rows) == {
        "9": 1,
        "0": fib[8],
        **{str(n): fib[10 - n] if n < 9 else 1 for n in range(1, 9)},
    }
    assert all(fib[int(args(row)["n"])] == int(args(row)["r"]) for row in rows)
    (outer,) = (row for row in rows if row["depth"] == 0)
    assert args(outer)["n"] == "9"
    end = outer["ktime_ns"] + outer["duration_ns"]
    assert all(outer["ktime_ns"] <= row["ktime_ns"] <= row["ktime_ns"] + row["duration_ns"] <= end for row in rows)
    assert max(row["depth"] for row in rows) == 8


def test_a_summary_counts_the_same(record: Record, workload: Callable[[str], str]) -> None:
    """The summary has as many calls by function as the events, and histograms of them."""
    command, declared = [workload("spans"), "steps", "307"], ["spans:step_*"]
    events = record("span", command, functions=declared)
    assert Counter(row["function"] for row in events.rows("span")) == {"step_one": 307, "step_two": 307}
    summary = record("span", command, functions=declared, mode="summary", interval_ms=ONE_INTERVAL_MS)
    rows = {row["function"]: row for row in summary.rows("span_summary")}
    assert {name: (row["count"], row["timed"], sum(row["latency"])) for name, row in rows.items()} == {
        "step_one": (307, 307, 307),
        "step_two": (307, 307, 307),
    }
    assert summary.count("span") == 0


def test_only_slow_calls(record: Record, workload: Callable[[str], str]) -> None:
    """With min_duration_ns, only calls that last as long are recorded."""
    declared = ["spans:sleeps us=arg0:i32"]
    recorded = record("span", [workload("spans"), "sleeps", "10"], functions=declared, min_duration_ns=15_000_000)
    slow = [row for row in recorded.rows("span") if args(row)["us"] == "20000"]
    assert len(slow) == 5
    assert all(row["duration_ns"] >= 15_000_000 for row in recorded.rows("span"))


PARTS = ("on_cpu_ns", "run_queue_ns", "blocked_ns", "stopped_ns", "unknown_ns")
MS = 1_000_000


@pytest.mark.alone  # a virtual CPU that the host takes away is not the program's time
def test_where_the_time_of_a_call_went(record: Record, workload: Callable[[str], str]) -> None:
    """With where=true a call's time is split into parts that add up: a sleep is blocked, a loop is on a CPU, two loops
    on one CPU wait for it, and page faults have a time. Without the option, nothing is said."""
    declared = [f"spans:{name}" for name in ("sleeps", "burns", "faults", "competes")]
    recorded = record("span", [workload("spans"), "where"], functions=declared, where=True)
    rows = recorded.rows("span")
    assert all(sum(row[part] for part in PARTS) == row["duration_ns"] for row in rows)
    slept, burnt, faulted = ([row for row in rows if row["function"] == name] for name in ("sleeps", "burns", "faults"))
    assert slept[0]["blocked_ns"] + slept[0]["run_queue_ns"] >= 19 * MS
    assert slept[0]["on_cpu_ns"] < slept[0]["blocked_ns"]
    on_cpu = [row["on_cpu_ns"] + row["unknown_ns"] for row in burnt]  # less what the host took from a virtual CPU
    assert [ns >= 0.99 * ms * MS for ns, ms in zip(on_cpu, (20, 30, 30), strict=True)] == [True] * 3
    assert 0 < faulted[0]["page_fault_ns"] < faulted[0]["duration_ns"]
    assert faulted[0]["page_fault_ns"] > max(row["page_fault_ns"] for row in burnt)
    competing = [row for row in rows if row["function"] == "competes"]
    assert sum(row["run_queue_ns"] + row["unknown_ns"] for row in competing) >= 29 * MS
    plain = record("span", [workload("spans"), "where"], functions=declared)
    assert {row[name] for row in plain.rows("span") for name in (*PARTS, "page_fault_ns")} == {None}


def test_a_switch_that_is_not_seen(workload: Callable[[str], str]) -> None:
    """The time around a switch that the programs missed is unknown, and the call counts as incomplete; the rest of the
    call is explained, and so is the next call."""
    options = {"functions": ["spans:stops"], "where": True}
    recorded, incomplete = record_with_a_missed_switch("span", options, [workload("spans"), "stops"])
    rows = recorded.rows("span")
    assert all(sum(row[part] for part in PARTS) == row["duration_ns"] for row in rows)
    half, other_half, whole = rows
    assert half["on_cpu_ns"] >= 4 * MS and half["stopped_ns"] > 0 and half["unknown_ns"] >= 4 * MS
    assert other_half["on_cpu_ns"] >= 4 * MS and other_half["unknown_ns"] >= 4 * MS
    assert whole["on_cpu_ns"] >= 8 * MS and whole["stopped_ns"] > 0
    assert incomplete["span"] == sum(row["unknown_ns"] > 0 for row in rows)


@pytest.mark.alone  # likewise
def test_a_summary_says_where_the_time_went(record: Record, workload: Callable[[str], str]) -> None:
    """The parts of a summary are sums over the calls, and add up to their durations."""
    command, declared = [workload("spans"), "where"], ["spans:sleeps", "spans:burns"]
    recorded = record("span", command, functions=declared, where=True, mode="summary", interval_ms=ONE_INTERVAL_MS)
    rows = {row["function"]: row for row in recorded.rows("span_summary")}
    assert {name: (row["count"], row["explained"]) for name, row in rows.items()} == {"sleeps": (1, 1), "burns": (3, 3)}
    assert all(sum(row[part] for part in PARTS) == row["total_ns"] for row in rows.values())
    assert rows["burns"]["on_cpu_ns"] + rows["burns"]["unknown_ns"] >= 79 * MS


def test_one_in_many(record: Record, workload: Callable[[str], str]) -> None:
    """With sample=8, about an eighth of the calls is recorded, and none counts as lost."""
    command = [workload("spans"), "steps", "20000"]
    recorded = record("span", command, functions=["spans:step_one"], sample=8)
    assert 2200 <= recorded.count("span") <= 2800  # 2500, within six standard deviations
    assert recorded.accounts["span"].lost == {}
    assert recorded.places[0].hits == 20000


def test_stacks(record: Record, workload: Callable[[str], str]) -> None:
    """With stacks=true each call has its callers."""
    recorded = record("span", [workload("spans"), "steps", "2"], functions=["spans:step_one"], stacks=True)
    assert {row["stack"].split(";")[-1] for row in recorded.rows("span")} == {"main"}
    without = record("span", [workload("spans"), "steps", "2"], functions=["spans:step_one"])
    assert {row["stack"] for row in without.rows("span")} == {None}


@pytest.mark.alone  # a busy machine takes some calls until it knows how to unwind the program
def test_stacks_of_calls_within_calls(record: Record, workload: Callable[[str], str]) -> None:
    """To record a return, the kernel puts another address on the stack; the callers are there nevertheless."""
    functions = ["naps:main", "naps:outer", "naps:inner", "libc:nanosleep"]
    recorded = record("span", [workload("naps")], functions=functions, stacks=True)
    rows = sorted(recorded.rows("span"), key=lambda row: row["ktime_ns"])
    for function, callers in (("outer", ""), ("inner", ";outer"), ("nanosleep", ";outer;inner")):
        stacks = [row["stack"].partition(";main")[2] for row in rows if row["function"] == function]
        assert len(stacks) == 61
        assert set(stacks[-20:]) == {callers}  # the first times, it may not be known yet how to unwind the program


def test_calls_that_are_jumped_out_of(record: Record, workload: Callable[[str], str]) -> None:
    """longjmp() leaves four calls, which are counted as lost; the next call is recorded as it was."""
    recorded = record("span", [workload("spans"), "jumps"], functions=["spans:jumps", "spans:last n=arg0:i32"])
    assert recorded.status == 0
    (row,) = recorded.rows("span")
    assert (row["function"], row["depth"], args(row)) == ("last", 0, {"n": "1"})
    assert recorded.accounts["span"].lost == {"left": 4}


def test_a_tail_call(record: Record, workload: Callable[[str], str]) -> None:
    """A function that ends with a jump to another one: both are recorded, one within the other."""
    recorded = record("span", [workload("spans"), "passes_on", "5"], functions=["spans:passes_on", "spans:last n=arg0"])
    rows = {row["function"]: row for row in recorded.rows("span")}
    assert {name: row["depth"] for name, row in rows.items()} == {"passes_on": 0, "last": 1}
    assert args(rows["last"]) == {"n": "6"}
    assert recorded.accounts["span"].lost == {}


def test_a_thread_that_ends_within_calls(record: Record, workload: Callable[[str], str]) -> None:
    """Calls in which a thread ends are recorded up to its end."""
    recorded = record("span", [workload("spans"), "thread", "3"], functions=["spans:ends_thread n=arg0:i32"])
    rows = recorded.rows("span")
    assert [(args(row)["n"], row["depth"], row["ended"]) for row in rows] == [
        (str(3 - depth), depth, "thread_ended") for depth in range(4)
    ]
    assert recorded.accounts["span"].emitted == 4


def test_exceptions_pass_unharmed(record: Record, cpp: Path) -> None:
    """By default the begin of C++ calls is recorded, so that exceptions pass. C functions have durations."""
    recorded = record(
        "span", [str(cpp), "20"], functions=["spans_cpp:*::fails n=arg0:i32", "spans_cpp:plain n=arg0:i32"]
    )
    assert recorded.status == 0
    counted = Counter((row["function"], row["ended"], row["duration_ns"] is None) for row in recorded.rows("span"))
    assert counted == {
        ("shop::(anonymous namespace)::fails(int)", "not_recorded", True): 20,
        ("plain", "returned", False): 20,
    }
    assert any("1 functions have neither duration nor result" in note for note in recorded.notes)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("shop::Pool::alloc", {"shop::Pool::alloc(unsigned long)", "shop::Pool::alloc(unsigned long, unsigned long*)"}),
        ("shop::Pool::alloc(unsigned long)", {"shop::Pool::alloc(unsigned long)"}),
        ("_ZN4shop4Pool5allocEm", {"shop::Pool::alloc(unsigned long)"}),
        ("*Pool*alloc*", {"shop::Pool::alloc(unsigned long)", "shop::Pool::alloc(unsigned long, unsigned long*)"}),
        (
            "shop::*::twice<*>",
            {
                "double shop::(anonymous namespace)::twice<double>(double)",
                "int shop::(anonymous namespace)::twice<int>(int)",
            },
        ),
    ],
)
def test_names_as_people_write_them(record: Record, cpp: Path, name: str, found: set[str]) -> None:
    """A function is found by its mangled or demangled name, with its parameters or without; local functions too."""
    recorded = record("span", [str(cpp), "3"], functions=[f"spans_cpp:{name} first=arg0:ptr"], returns="all")
    rows = recorded.rows("span")
    assert Counter(row["function"] for row in rows) == dict.fromkeys(found, 3)
    assert {row["ended"] for row in rows} == {"returned"}


def test_every_function_of_a_program(record: Record, workload: Callable[[str], str], cpp: Path) -> None:
    """A pattern for all functions, those that begin a program too, harms no program."""
    recorded = record("span", [workload("spans"), "fib", "5"], functions=["spans:*"])
    assert recorded.status == 0
    assert Counter(row["function"] for row in recorded.rows("span"))["fib"] == 15
    assert record("span", [str(cpp), "4"], functions=["spans_cpp:*", "libstdc++:__cxa_throw"]).status == 0


def test_jumps_of_a_traced_setjmp(record: Record, workload: Callable[[str], str]) -> None:
    """A program that jumps back to a traced setjmp() goes on."""
    recorded = record("span", [workload("spans"), "jumps"], functions=["libc:*setjmp*"])
    assert recorded.status == 0
    assert {row["ended"] for row in recorded.rows("span")} == {"not_recorded"}


def test_returns_of_none(record: Record, workload: Callable[[str], str]) -> None:
    """With returns=none no call has a duration, in events and in the summary."""
    command, declared = [workload("spans"), "steps", "5"], ["spans:step_one n=arg0:i32"]
    events = record("span", command, functions=declared, returns="none")
    assert [(args(row)["n"], row["ended"], row["duration_ns"]) for row in events.rows("span")] == [
        (str(i), "not_recorded", None) for i in range(5)
    ]
    summary = record("span", command, functions=declared, returns="none", mode="summary", interval_ms=ONE_INTERVAL_MS)
    (row,) = summary.rows("span_summary")
    assert (row["count"], row["timed"], row["total_ns"]) == (5, 0, None)


def test_hundreds_of_functions_in_a_library_opened_later(record: Record, tmp_path: Path) -> None:
    """One pattern for 300 functions of a library that a running program opens: each counts its own calls."""
    names = [f"many_{number}" for number in range(300)]
    library, program = tmp_path / "libmany.so", tmp_path / "opens"
    (tmp_path / "many.c").write_text("".join(f"int {name}(int n) {{ return n + 1; }}\n" for name in names))
    calls = "".join(f'((int (*)(int))dlsym(l, "{name}"))({number});' for number, name in enumerate(names))
    main = f'#include <dlfcn.h>\n#include <unistd.h>\nint main(void) {{ void *l = dlopen("{library}", RTLD_NOW); '
    (tmp_path / "opens.c").write_text(f"{main} sleep(3); {calls} return 0; }}")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "many.c"], check=True)
    subprocess.run(["gcc", "-o", program, tmp_path / "opens.c"], check=True)
    recorded = record("span", [str(program)], functions=["libmany:many_* n=arg0:i32 r=ret:i32"])
    found = {row["function"]: (args(row)["n"], args(row)["r"]) for row in recorded.rows("span")}
    assert found == {name: (str(number), str(number + 1)) for number, name in enumerate(names)}


def test_a_file_that_runs_later_is_seen_from_its_first_call(record: Record, workload: Callable[[str], str]) -> None:
    """A file that is named by its path is attached to before a process runs it: no call is missed."""
    declared = [f"{workload('spans')}:step_one"]
    recorded = record("span", ["sh", "-c", f"true; exec {workload('spans')} steps 31"], functions=declared)
    assert recorded.count("span") == 31


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("spans:step_tow", r"spans: there is no function 'step_tow' \(did you mean 'step_two'"),
        ("spans:nothing_like_it_at_all", r"spans: there is no function 'nothing_like_it_at_all'"),
    ],
)
def test_a_function_that_is_not_there(record: Record, workload: Callable[[str], str], declared: str, said: str) -> None:
    """A function that the command's files lack is an error at once, with the nearest names."""
    with pytest.raises(FunctionNotFound, match=said):
        record("span", [workload("spans"), "steps", "1"], functions=[declared])


def test_the_scope_of_a_function_is_suggested(record: Record, cpp: Path) -> None:
    """For a C++ function without its scope, the error names the whole function."""
    with pytest.raises(FunctionNotFound, match=r"did you mean 'shop::\(anonymous namespace\)::fails'\?"):
        record("span", [str(cpp), "1"], functions=["spans_cpp:fails"])


def test_a_stripped_file(record: Record, workload: Callable[[str], str], tmp_path: Path) -> None:
    """The error says that the file was stripped."""
    stripped = tmp_path / "spans"
    subprocess.run(["strip", "-o", stripped, workload("spans")], check=True)
    with pytest.raises(FunctionNotFound, match="or it has no name, since the file was stripped"):
        record("span", [str(stripped), "steps", "1"], functions=["spans:step_one"])


def test_patterns_that_match_nothing_are_told(record: Record, workload: Callable[[str], str]) -> None:
    """Notes say of each pattern whether its file was not run, or has no such function."""
    declared = ["spans:step_one", "spans:no_such_*", "libnothing:f"]
    recorded = record("span", [workload("spans"), "steps", "1"], functions=declared)
    assert recorded.count("span") == 1
    assert recorded.notes == [
        f"spans:no_such_*: {workload('spans')}: there is no function 'no_such_*'",
        "libnothing:f: no watched process has run a file named 'libnothing'",
    ]
    uncalled = record("span", [workload("spans"), "steps", "0"], functions=declared)
    assert uncalled.notes == [*recorded.notes, "attached to 1 functions; no watched process has called one"]


def test_a_program_that_recording_slows_is_told(
    record: Record, workload: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note names the function whose calls take much of the program's CPU time, and none if they are few."""
    monkeypatch.setattr(slowdown, "EVERY_S", 0.1)
    often = record("span", [workload("spans"), "fib", "29"], functions=["spans:fib"], min_duration_ns=10**9)
    (note,) = [note for note in often.notes if note.startswith("recording slows the watched programs: about ")]
    assert "most at spans:fib; choose functions" in note
    seldom = record("span", [workload("spans"), "fib", "24"], functions=["spans:main"])
    assert not [note for note in seldom.notes if "slows" in note]
