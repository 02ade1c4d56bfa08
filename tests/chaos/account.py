"""The check after a schedule: every event is stored exactly once, with right values, or counted as lost."""

import time
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tests.chaos.world import PATIENCE_S, Load, World

_EVERY, _LAST_TAKEN = 3, 1800
TAKEN = f"arg1 in ({', '.join(map(str, range(_EVERY, _LAST_TAKEN + 1, _EVERY)))})"  # a filter of calls by their numbers
_OVER = ("stopped", "failed")
EVENTS_AN_ALLOCATION = 4  # cudaMalloc and cudaFree, and the driver call inside each
_RUNS = """
SELECT t.task_id::text, r.run_id::text, b.stream, b.emitted, b.stored, b.lost, b.left_out, b.under_way, b.closed
FROM scope.books b JOIN scope.runs r USING (run_id) JOIN scope.tasks t ON t.task_id = b.task_id ORDER BY 1, 2, 3"""

_LOSSES = """
SELECT l.place, l.reason, sum(l.count)::bigint FROM store.losses l JOIN store.runs r ON r.id = l.run
WHERE r.run_id = %s AND l.stream = %s GROUP BY 1, 2 ORDER BY 1, 2"""

_RIGHT = "ret = -9 AND comm = 'load' AND name = 'lseek'"
_WRONG = f"SELECT time, comm, name, arg1, ret FROM scope.syscall WHERE pid = %s AND ({_RIGHT}) IS NOT TRUE LIMIT 5"


def books(world: World) -> list[dict[str, Any]]:
    """The books of every run and stream."""
    names = ("task", "run", "stream", "emitted", "stored", "lost", "left_out", "under_way", "closed")
    return [dict(zip(names, row, strict=True)) for row in world.query(_RUNS)]


def all_sent(world: World) -> bool:
    """Whether the agent runs no task and has sent every record of those it ran, so that the server knows all runs."""
    with urllib.request.urlopen(f"http://{world.metrics}/metrics", timeout=PATIENCE_S) as answer:
        samples = [one for family in text_string_to_metric_families(answer.read().decode()) for one in family.samples]
    running = sum(one.value for one in samples if one.name == "scope_tasks" and one.labels["state"] not in _OVER)
    waiting = sum(one.value for one in samples if one.name == "scope_agent_spool_records")
    return not running and not waiting


def all_closed(world: World) -> bool:
    """Whether all runs have ended and their counts are final."""
    open_runs = world.query("SELECT count(*) FROM scope.runs WHERE ended IS NULL")[0][0]
    found = books(world)
    return bool(found) and not open_runs and all(one["closed"] for one in found)


def check_books(world: World) -> None:
    """Checks that emitted = stored + lost + left out, and that every row counted as stored exists."""
    for one in books(world):
        told = f"{one}; lost: {world.query(_LOSSES, one['run'], one['stream'])}"
        assert one["under_way"] == 0, told
        assert one["emitted"] == one["stored"] + one["lost"] + one["left_out"], told
        assert min(one["emitted"], one["stored"], one["lost"], one["left_out"]) >= 0, told
        rows = world.query(
            "SELECT coalesce(sum(times), 0)::bigint, count(*) FROM (SELECT count(*) AS times"
            f" FROM scope.{one['stream']} e WHERE e.batch IN (SELECT b.id FROM store.batches b"
            " JOIN store.runs r ON r.id = b.run WHERE r.run_id = %s) GROUP BY e.batch, e.ordinal) AS found",
            one["run"],
        )
        assert rows == [(one["stored"], one["stored"])], one


def check_calls(world: World, load: Load, lived_on: bool) -> None:
    """Checks that no call is stored twice, invented or with wrong values. A call's second argument is its number.

    If no fault ended the agent (`lived_on`), every call was emitted.
    """
    rows, distinct, first, last, right = world.query(
        "SELECT count(*), count(DISTINCT arg1), min(arg1), max(arg1),"
        f" count(*) FILTER (WHERE {_RIGHT}) FROM scope.syscall WHERE pid = %s",
        load.pid,
    )[0]
    assert rows == distinct, f"{rows - distinct} rows are there twice"
    assert rows == right, world.query(_WRONG, load.pid)
    if rows:
        assert first >= 1
        assert last <= load.calls
    emitted = world.query(
        "SELECT coalesce(sum(b.emitted), 0) FROM scope.books b JOIN scope.tasks t USING (task_id)"
        " WHERE b.stream = 'syscall' AND (t.definition #>> '{target,pid}')::int = %s",
        load.pid,
    )[0][0]
    assert emitted <= load.calls
    if lived_on:
        assert emitted == load.calls, f"{emitted} emitted, {load.calls} made"


def check_left_out(world: World, load: Load, lived_on: bool) -> None:
    """Checks of a load that is watched with the filter `TAKEN`: only calls that it takes are stored, no other call is
    counted as left out, and with `lived_on` every other one is."""
    taken = min(load.calls, _LAST_TAKEN) // _EVERY
    stored, wrong, left_out = world.query(
        "SELECT count(*), count(*) FILTER (WHERE arg1 %% %s <> 0 OR arg1 > %s),"
        " (SELECT coalesce(sum(b.left_out), 0) FROM scope.books b JOIN scope.tasks t USING (task_id)"
        "  WHERE (t.definition #>> '{target,pid}')::int = %s)"
        " FROM scope.syscall WHERE pid = %s",
        _EVERY,
        _LAST_TAKEN,
        load.pid,
        load.pid,
    )[0]
    assert (stored <= taken, wrong) == (True, 0)
    assert left_out <= load.calls - taken
    if lived_on:
        assert left_out == load.calls - taken, f"{left_out} left out, {load.calls} calls made, {taken} taken"


def check_learnt(world: World) -> None:
    """Checks the column that only newer versions have (`newer/`): where an agent sent it, it has the right value."""
    if world.query("SELECT FROM pg_attribute WHERE attrelid = 'scope.syscall'::regclass AND attname = 'failed'"):
        assert world.query("SELECT count(*) FROM scope.syscall WHERE failed <> (ret < 0)") == [(0,)]


def check_allocations(world: World, load: Load, lived_on: bool) -> None:
    """Checks that no allocation is stored twice or with a wrong stack: its size is its number and implies its stack."""
    rows, distinct, last = world.query(
        "SELECT count(*), count(DISTINCT bytes), max(bytes) FROM scope.cuda_call"
        " WHERE pid = %s AND function = 'cudaMalloc' AND nested = 0",
        load.pid,
    )[0]
    assert rows == distinct
    assert not rows or last <= load.calls
    wrong = world.query(
        "SELECT bytes, stack FROM scope.cuda_call WHERE pid = %s AND function = 'cudaMalloc' AND nested = 0"
        " AND (length(stack) - length(replace(stack, 'allocate', ''))) / 8 <> (bytes - 1) %% 31 + 1 LIMIT 5",
        load.pid,
    )
    assert not wrong, wrong
    emitted = world.query("SELECT coalesce(sum(emitted), 0) FROM scope.books WHERE stream = 'cuda_call'")[0][0]
    assert emitted <= EVENTS_AN_ALLOCATION * load.calls
    if lived_on:
        assert emitted == EVENTS_AN_ALLOCATION * load.calls, f"{emitted} emitted, {load.calls} allocations made"


def check_programs(world: World, load: Load, lived_on: bool) -> None:
    """Checks that each program has at most one exec and one exit; with `lived_on`, every exec was emitted."""
    for stream in ("exec", "exit"):
        rows, distinct = world.query(
            f"SELECT count(*), count(DISTINCT pid) FROM scope.{stream} WHERE ppid = %s", load.pid
        )[0]
        assert rows == distinct <= load.programs
    if lived_on:
        emitted = world.query("SELECT coalesce(sum(emitted), 0) FROM scope.books WHERE stream = 'exec'")[0][0]
        assert emitted == sum(one.programs for one in world.loads)


def resident_mb(pid: int) -> float:
    """Resident memory of a process, in 10^6 bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


def open_files(world: World) -> Counter[tuple[str, str]]:
    """Open files and sockets of the server and the agent, by kind.

    Leaves out those that come and go with the data: the spool's segments, and the server's connections to PostgreSQL
    (every socket that is not TCP).
    """
    tcp = {line.split()[9] for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()}
    found: Counter[tuple[str, str]] = Counter()
    for part in world.parts:
        for entry in Path(f"/proc/{part.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # it was closed meanwhile
                kind = str(entry.readlink())
                if kind.startswith("socket:"):
                    kind = "TCP" if kind.strip("socket:[]") in tcp else ""
                if kind.startswith("pipe:"):
                    kind = "pipe"  # of whatever number
                if kind and not kind.endswith(".segment"):
                    found[part.name, kind] += 1
    return found


def left_open(world: World, idle: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Files open now that idle daemons did not have open; waits, since closing files may take a moment."""
    end = time.monotonic() + PATIENCE_S
    while (left := open_files(world) - idle) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that mention a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in words:
                found.append(words)
    return found
