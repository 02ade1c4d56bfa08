"""`scope tasks`, `nodes`, `start` and `stop`: how they print the API's answers."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.cli.answers import MACHINE, TASK_ID, a_node, a_stream, a_task, in_seconds
from tests.unit.cli.conftest import STORAGE, Api

Run = Callable[..., tuple[int, str, str]]


def _lines(said: tuple[int, str, str]) -> list[list[str]]:
    assert said[0] == 0, said[2]
    return [line.split() for line in said[1].splitlines() if line.strip()]


def test_the_books_of_a_stream_are_shown(api: Api, scope: Run) -> None:
    """Each stream has a line: events, stored, under way, lost by place and reason; the first line has sent and CPU."""
    lost = [{"place": "spool", "reason": "full", "count": 97}, {"place": "ring", "reason": "ring_full", "count": 3}]
    task = a_task(streams=[a_stream(lost=lost), a_stream(stream="syscall_summary")], cost={"cpu_share": 0.0123})
    api.answer("GET tasks", {"tasks": [task]})
    head, first, second, _ = _lines(scope("tasks"))
    assert head == ["task", "probe", "state", "stream", "events", "stored", "under", "way", "lost", "sent", "CPU"]
    books = ["1,009", "900", "9", "97", "spool/full,", "3", "ring/ring_full"]
    assert first == [TASK_ID[:8], "syscalls", "running", "syscall", *books, "2", "KiB", "1.23%"]
    assert second == ["syscall_summary", "1,009", "900", "9", "none"]
    assert api.asked == [("GET", "tasks?state=active", None), ("GET", "storage", None)]


def test_what_a_filter_left_out_is_shown(api: Api, scope: Run) -> None:
    """If a task has a filter, a column tells what the filters left out, and a line below has the filter, escaped."""
    task = a_task(streams=[a_stream(left_out=100)], where="comm = '\x1b[2J'")
    api.answer("GET tasks", {"tasks": [task, a_task(streams=[a_stream()])]})
    head, first, second, said = _lines(scope("tasks"))[:4]
    assert head[4:10] == ["events", "stored", "left", "out", "under", "way"]
    assert (first[4:8], second[4:8]) == (["1,009", "900", "100", "9"], ["1,009", "900", "0", "9"])
    assert " ".join(said).endswith("records only rows with comm = '\\x1b[2J'")


def test_what_a_task_may_not_have_seen_is_shown(api: Api, scope: Run) -> None:
    """A task's notes on what it may have missed are shown below its counts."""
    task = a_task(streams=[a_stream()], notes=["libcudart.so.13 was late"])
    api.answer("GET tasks", {"tasks": [task]})
    assert _lines(scope("tasks"))[2] == [TASK_ID[:8], "syscalls:", "libcudart.so.13", "was", "late"]


def test_a_task_without_rows_has_a_line(api: Api, scope: Run) -> None:
    """A task without streams has a line; `--all` asks for ended tasks too."""
    api.answer("GET tasks", {"tasks": [a_task(state="stopped")]})
    assert _lines(scope("tasks", "--all"))[1][:4] == [TASK_ID[:8], "syscalls", "stopped", "-"]
    assert api.asked == [("GET", "tasks", None), ("GET", "storage", None)]


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ({}, "storage: 3 GiB of 20 GiB, since 2026-10-23"),
        (
            {"wal_bytes": 512 << 20},
            "storage: 3 GiB of 20 GiB (512 MiB of it write-ahead log), since 2026-10-23",
        ),
        ({"bytes": None, "oldest_day": None}, "storage: not looked at yet of 20 GiB"),
        (
            {"dropped_days": {"age": 7, "limit": 1, "floor": 1}},
            "storage: 3 GiB of 20 GiB, since 2026-10-23; 2 days dropped (limit, floor)",
        ),
        (
            {"free_bytes": 312 << 20, "floor_bytes": 512 << 20},
            "storage: 3 GiB of 20 GiB, since 2026-10-23; waits: only 312 MiB are free on the disk (floor 512 MiB)",
        ),
        ({"problem": "too much"}, "storage: 3 GiB of 20 GiB, since 2026-10-23; too much"),
    ],
)
def test_the_last_line_tells_what_is_stored(api: Api, scope: Run, told: dict[str, Any], line: str) -> None:
    """The last line has the stored bytes, the limit, the oldest day, the days dropped early, and any problem."""
    api.answers.clear()
    api.answer("GET tasks", {"tasks": [a_task()]})
    api.answer("GET storage", {**STORAGE, **told})
    assert scope("tasks")[1].splitlines()[-1] == line


def test_why_a_task_does_not_run_is_shown(api: Api, scope: Run) -> None:
    """A task that does not run shows its reason, next try and origin; `[red]` in a text is not markup."""
    reason = "no process has [red]pid 5"
    task = a_task(state="pending", reason=reason, next_try=in_seconds(100.9), origin="agent")
    api.answer("GET tasks", {"tasks": [task]})
    lines = [" ".join(line) for line in _lines(scope("tasks"))]
    about = f"{TASK_ID[:8]} syscalls:"
    assert lines[2:-1] == [f"{about} started on the machine itself", f"{about} {reason}; next try in 101 s"]


def test_who_did_it_is_shown(api: Api, scope: Run) -> None:
    """Persons who started or stopped a task on the machine are named."""
    task = a_task(state="stopped", origin="agent", started_by="ada", stopped_by="bob")
    api.answer("GET tasks", {"tasks": [task]})
    about = f"{TASK_ID[:8]} syscalls:"
    assert [" ".join(line) for line in _lines(scope("tasks"))][2:-1] == [
        f"{about} started on the machine itself by ada",
        f"{about} stopped on the machine itself by bob",
    ]


def test_a_machine_is_shown_with_what_is_to_be_said(api: Api, scope: Run) -> None:
    """A machine's line has connection, age, labels and spool; remarks have the rest."""
    spool = {"bytes": 3 << 20, "limit_bytes": 1 << 30, "records": 1009, "dropped_records": 7, "deferred_records": 3}
    conflict = {"hostname": "there", "time": in_seconds(-7200)}
    told = {"labels": {"b": "2", "a": "1"}, "membership": "unconfirmed"}
    api.answer("GET nodes", {"nodes": [a_node(**told, clock_ahead_ns=-90 * 10**9, spool=spool, conflict=conflict)]})
    lines = [" ".join(line) for line in _lines(scope("nodes"))]
    assert lines[1].startswith(f"here {MACHINE[:12]} 6.1 2 yes 3 min ago a=1 b=2 ")
    assert "the database does not know that it joined" in lines[1]
    assert lines[2:] == [
        "spool: 1,009 records wait, 3 MiB of 1 GiB",
        "spool: 3 of them wait: the server could not store them yet",
        "spool: 7 records were dropped",
        "clock: 90 s behind the server's",
        "conflict: another agent with this machine's id, on there, was refused 2 h ago",
    ]


def test_a_machine_in_order_has_no_remarks(api: Api, scope: Run) -> None:
    """With an empty spool and a clock at most a second off, a machine has no remarks."""
    spool = {"bytes": 0, "limit_bytes": 1 << 30, "records": 0, "dropped_records": 0, "deferred_records": 0}
    api.answer("GET nodes", {"nodes": [a_node(clock_ahead_ns=10**9, spool=spool, connected=False)]})
    assert _lines(scope("nodes"))[1:] == [["here", MACHINE[:12], "6.1", "2", "no", "3", "min", "ago"]]


def test_a_started_task_is_told_by_its_id(api: Api, scope: Run) -> None:
    """`scope start` prints only the task's id, if the task records."""
    api.answer("POST tasks", a_task())
    assert scope("start", "here", "syscalls", "--pid", "5", "--duration", "7") == (0, f"{TASK_ID}\n", "")
    body = {"probe": "syscalls", "target": {"pid": 5}, "options": {}, "node": "here", "duration": 7.0}
    assert api.asked == [("POST", "tasks", body)]


def test_a_filter_goes_to_every_part(api: Api, scope: Run) -> None:
    """`--where` is the task's, or of each probe of a group or of a kept template; a template that is started has its
    own."""
    api.answer("POST tasks", a_task())
    api.answer("POST groups", {"group_id": "g", "tasks": [a_task()], "refused": []})
    api.answer("POST templates", {"name": "mine"})
    assert scope("start", "here", "files", "--where", "ret < 0")[0] == 0
    assert scope("start", "here", "files,syscalls", "--where", "ret < 0")[0] == 0
    assert scope("templates", "keep", "mine", "files,syscalls", "--where", "ret < 0")[0] == 0
    parts: list[dict[str, Any]] = [
        {"probe": probe, "options": {}, "where": "ret < 0"} for probe in ("files", "syscalls")
    ]
    assert [body and body.get("parts", [body])[0]["where"] for _, _, body in api.asked] == ["ret < 0"] * 3
    assert [body and body.get("parts") for _, _, body in api.asked[1:]] == [parts, parts]
    status, _, error = scope("start", "here", "template:slow", "--where", "ret < 0")
    assert (status, "own options and filters" in error) == (2, True)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"reason": "the agent is not connected"}, "the agent is not connected"),
        ({"reason": "no file is free", "next_try": in_seconds(-1)}, "no file is free; next try now"),
        ({"state": "starting"}, "the machine has not started it yet"),
    ],
)
def test_a_task_that_starts_later_is_told(api: Api, scope: Run, fields: dict[str, Any], why: str) -> None:
    """A task that starts later is printed with its id and the reason, with status 0: the task stays wanted."""
    api.answer("POST tasks", a_task(**{"state": "pending", **fields}))
    status, out, error = scope("start", "here", "syscalls")
    assert (status, out) == (0, f"{TASK_ID}\n")
    assert error == f"scope: the task is pending: {why}; `scope tasks` shows it\n"


def test_a_task_that_is_refused_is_wrong_usage(api: Api, scope: Run) -> None:
    """A refused task is reported in the server's words, with status 2, as `scope trace nonsense` is."""
    api.answer("POST tasks", {"title": "Bad Request", "detail": "no probe named 'nonsense'"}, status=400)
    assert scope("start", "local", "nonsense") == (2, "", "scope: no probe named 'nonsense'\n")


@pytest.mark.parametrize(
    ("given", "matching"), [("019", "the ids of several tasks begin"), ("fff", "no active task's id begins")]
)
def test_a_task_to_stop_is_one(api: Api, scope: Run, given: str, matching: str) -> None:
    """`scope stop` accepts the first characters of an id, if they match exactly one task."""
    other = a_task(task_id=TASK_ID.replace("0190", "0191"))
    api.answer("GET tasks", {"tasks": [a_task(), other]})
    api.answer(f"POST tasks/{TASK_ID}/stop", a_task(state="stopping"))
    assert scope("stop", TASK_ID[:6]) == (0, f"{TASK_ID}\n", "")
    assert scope("stop", given) == (2, "", f"scope: {matching} with '{given}'; `scope tasks` lists them\n")
