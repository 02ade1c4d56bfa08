"""The processes of a machine, from the rows of the streams that tell of them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.integration.server.api.recorded import WINDOW, batch_of, store
from tests.integration.server.records import BOOT_TO_UTC_NS, STORED, Line, Run
from tests.integration.server.running import Server

from scope_proto.scope.v1.record_pb2 import Process

StartServer = Callable[..., Any]
MS = 1_000_000
BOOTED = datetime.fromtimestamp(BOOT_TO_UTC_NS / 1e9, UTC)


async def processes(server: Server, **query: Any) -> Any:
    status, answer = await server.ask("GET", "processes", params={**WINDOW, **query})
    assert status == 200, answer
    return answer


def _booted(line: Line) -> None:
    line.query("UPDATE store.machines SET booted = %s", BOOTED)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def _executed(line: Line, *processes: Process) -> None:
    """Rows of successful execs, with what the agent tells of the processes."""
    rows = [{"pid": one.pid, "start_ns": one.start_ns, "comm": one.exe[5:] or "a"} for one in processes]
    batch = Run().batch(1, batch_of("exec", rows), stream="exec")
    batch.batch.processes.extend(processes)
    assert [answer.verdict for answer in await line.send(batch)] == [STORED]


async def test_a_tree_with_times(line: Line, start_server: StartServer) -> None:
    """A process has its parent (the newest with this pid when it began), its begin and end, and its time on CPUs."""
    _booted(line)
    shell = {"pid": 200, "start_ns": 500 * MS}
    child = {"pid": 201, "start_ns": 700 * MS}
    await store(line, "fork", [{"pid": 100, "start_ns": start * MS} for start in (50, 400, 600)])
    await _executed(
        line,
        Process(pid=200, start_ns=500 * MS, parent_pid=100, exe="/bin/sh", cmdline=["sh", "-c", "x"]),
        Process(pid=201, start_ns=700 * MS, parent_pid=200, exe="/bin/x"),
    )
    await store(line, "exec", [{"pid": 202, "start_ns": 800 * MS, "ret": -2}])  # it failed
    ended = {"lifetime_ns": 30 * MS, "user_ns": 5 * MS, "system_ns": 2 * MS, "exit_code": 3}
    await store(line, "exit", [{**child, "comm": "x", **ended}])
    ran = {**shell, "run_queue_ns": MS}
    await store(
        line,
        "sched_process_summary",
        [{**ran, "comm": "sh", "on_cpu_ns": 11 * MS}, {**ran, "comm": "dash", "on_cpu_ns": 2 * MS}],
    )
    async with start_server() as server:
        found = await processes(server)
        nothing = await processes(server, since="2001-01-01T00:00:00Z", until="2001-01-02T00:00:00Z")
        assert (await server.ask("GET", "processes", params={"machine": "nobody"}))[0] == 404
        some = {each: await processes(server, where=each) for each in ("comm = x", "exit_code = 3", "comm = nobody")}
        assert (await server.ask("GET", "processes", params={**WINDOW, "where": "path = x"}))[0] == 400
    for each, shown in {"comm = x": [100, 200, 201], "exit_code = 3": [100, 200, 201], "comm = nobody": []}.items():
        assert [one["pid"] for one in some[each]["processes"]] == shown, each  # with those above it
        assert some[each]["not_recorded"] == [], each  # it was, if of others
    # Without the column, a stream chooses no process, and tells of those that others choose.
    assert (some["exit_code = 3"]["processes"][2]["on_cpu_ns"], some["comm = x"]["processes"][1]["comm"]) == (
        7 * MS,
        None,
    )
    parent, sh, x = found["processes"]
    assert (parent["pid"], parent["start_ns"], parent["comm"], parent["on_cpu_ns"]) == (100, 400 * MS, None, None)
    assert (sh["pid"], sh["parent_pid"], sh["parent_start_ns"], sh["exe"]) == (200, 100, 400 * MS, "/bin/sh")
    assert (sh["comm"], sh["cmdline"], sh["on_cpu_ns"], sh["run_queue_ns"]) == (
        "sh",
        ["sh", "-c", "x"],
        13 * MS,
        2 * MS,
    )
    assert (_moment(sh["started"]), sh["ended"], sh["exit_code"]) == (BOOTED + timedelta(milliseconds=500), None, None)
    assert (x["parent_pid"], x["parent_start_ns"], x["exit_code"], x["signal"]) == (200, 500 * MS, 3, 0)
    assert _moment(x["ended"]) - _moment(x["started"]) == timedelta(milliseconds=30)
    assert (x["on_cpu_ns"], x["run_queue_ns"]) == (7 * MS, None)
    assert (found["complete"], found["not_recorded"]) == (True, [])
    assert (nothing["processes"], nothing["not_recorded"]) == ([], ["sched", "process"])


async def test_no_process_is_its_own_ancestor(line: Line, start_server: StartServer) -> None:
    """Parents that are wrong, because pids are used again, make no circle; rows of no process are left out."""
    parents = {300: 301, 301: 300, 302: 302}
    await _executed(line, *(Process(pid=pid, start_ns=5, parent_pid=parent) for pid, parent in parents.items()))
    await store(line, "sched_process_summary", [{"pid": 0, "start_ns": 0, "on_cpu_ns": 7}])
    async with start_server() as server:
        found = await processes(server)
    assert {each["pid"]: each["parent_start_ns"] for each in found["processes"]} == {300: None, 301: None, 302: None}
    assert {each["started"] for each in found["processes"]} == {None}
