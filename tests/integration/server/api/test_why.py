"""Where a process's time went: from the rows of the streams that were recorded; what was not recorded is said."""

from collections.abc import Callable
from typing import Any

from tests.integration.server.api.recorded import WINDOW, store
from tests.integration.server.records import Line
from tests.integration.server.running import Server

StartServer = Callable[..., Any]
MS = 1_000_000


async def why(server: Server, **query: Any) -> Any:
    status, answer = await server.ask("GET", "why", params={**WINDOW, "pid": 4711, **query})
    assert status == 200, answer
    return answer


def of_thread(tid: int, part: str, ns: int, **more: Any) -> dict[str, Any]:
    return {"tid": tid, "thread_comm": f"t{tid}", "part": part, "total_ns": ns, f"{part}_ns": ns, "count": 1, **more}


async def test_from_why_files_and_syscalls(line: Line, start_server: StartServer) -> None:
    """The wall time adds up over threads and intervals; calls have their files; another process is not in it."""
    read = {"blocked_in": "read", "file_kind": "file", "path": "/data/x"}
    rows = [
        of_thread(1, "on_cpu", 10 * MS),
        of_thread(1, "run_queue", 61 * MS),
        of_thread(2, "blocked", 20 * MS, **read),
        of_thread(2, "blocked", 9 * MS, blocked_in="futex"),
    ]
    await store(line, "why_summary", [*rows, *rows, of_thread(9, "on_cpu", 999 * MS, pid=815)])
    await store(line, "page_fault_summary", [{"tid": 1, "kind": "minor", "count": 7, "total_ns": MS}])
    await store(line, "syscall_summary", [{"name": "read", "count": 3, "errors": 1, "total_ns": 21 * MS}])
    async with start_server() as server:
        found = await why(server)
    assert found["sentence"] == (
        "Of 200 ms of its threads' time: 61% waiting for a CPU, 29% blocked, 10% on a CPU. "
        "Of the time blocked: 69% in read of /data/x, 31% in futex."
    )
    assert found["wall"] == {
        "total_ns": 200 * MS,
        "on_cpu_ns": 20 * MS,
        "run_queue_ns": 122 * MS,
        "blocked_ns": 58 * MS,
    }
    assert [(each["tid"], each["name"], each["total_ns"]) for each in found["threads"]] == [
        (1, "t1", 142 * MS),
        (2, "t2", 58 * MS),
    ]
    first = found["calls"][0]
    assert (first["call"], first["path"], first["blocked_ns"], first["count"]) == ("read", "/data/x", 40 * MS, 2)
    assert found["faults"] == [{"kind": "minor", "count": 7, "total_ns": MS}]
    assert found["syscalls"] == [{"name": "read", "count": 3, "errors": 1, "total_ns": 21 * MS}]
    assert [(each["stream"], each["remedy"]) for each in found["not_recorded"]] == [
        ("file_summary", "scope start NODE files --mode summary --pid 4711"),
        ("lock_wait", "scope start NODE locks --pid 4711"),
    ]
    assert (found["complete"], found["start_ns"]) == (True, 500)


async def test_from_the_scheduler(line: Line, start_server: StartServer) -> None:
    """Without rows of `why`, those of `sched` tell the split; files that were read are said in any case."""
    times = {"on_cpu_ns": 3 * MS, "run_queue_ns": 5 * MS, "off_cpu_ns": 92 * MS}
    await store(line, "sched_summary", [{"tid": 1, "thread_comm": "t1", **times}])
    await store(line, "file_summary", [{"path": "/data/x", "read_ns": 7, "read_bytes": 11}])
    async with start_server() as server:
        found = await why(server)
    assert found["sentence"] == "Of 100 ms of its threads' time: 92% blocked, 5% waiting for a CPU."
    assert [each["path"] for each in found["files"]] == ["/data/x"]
    assert {each["stream"] for each in found["not_recorded"]} == {"why_summary", "syscall_summary"}


async def test_locks_disks_and_peers(line: Line, start_server: StartServer) -> None:
    """A lock has the thread that held it, a disk its times, a peer its bytes; the sentence names the lock."""
    await store(line, "why_summary", [of_thread(1, "blocked", 30 * MS, blocked_in="futex")])
    held = {"address": 0xFFFF_8000_0000_0010, "kind": "lock", "waker_comm": "worker", "waker_tid": 12}
    await store(line, "lock_wait", [{"duration_ns": 10 * MS, **held}] * 2 + [{"duration_ns": 1, "kind": "other"}])
    times = {"count": 3, "bytes": 4096, "queue_ns": 5, "device_ns": 7}
    await store(line, "block_summary", [{"disk": "vda", "operation": "read", **times}] * 2)
    peer = {"remote": "10.0.0.7", "port": 5432, "direction": "out", "begun": 1, "sent_bytes": 11}
    await store(line, "connection_summary", [{**peer, "rtt_ns": 90, "rtt_count": 3}, {**peer, "remote": "10.0.0.8"}])
    async with start_server() as server:
        found = await why(server)
    assert found["sentence"] == (
        "Of 30 ms of its threads' time: 100% blocked. Of the time blocked: 100% in futex. "
        "It waited 20 ms for the lock 0xffff800000000010 that worker held."
    )
    assert found["locks"] == [
        {"address": "0xffff800000000010", "holder": "worker", "holder_tid": 12, "count": 2, "total_ns": 20 * MS}
    ]
    assert found["disks"] == [
        {"disk": "vda", "operation": "read", "count": 6, "bytes": 8192, "queue_ns": 10, "device_ns": 14}
    ]
    assert [(each["remote"], each["sent_bytes"], each["rtt_ns"]) for each in found["peers"]] == [
        ("10.0.0.7", 11, 30),
        ("10.0.0.8", 11, None),
    ]


async def test_waits_without_their_locks(line: Line, start_server: StartServer) -> None:
    """Where threads wait for others and no lock was recorded, the answer says how to record them."""
    await store(line, "why_summary", [of_thread(1, "blocked", 30 * MS, blocked_in="futex")])
    async with start_server() as server:
        missing = (await why(server))["not_recorded"]
    assert ("lock_wait", "scope start NODE locks --pid 4711") in [(each["stream"], each["remedy"]) for each in missing]


async def test_a_reused_pid_and_what_is_unknown(line: Line, start_server: StartServer) -> None:
    """The newest process is meant unless its start is given, rounded or not; an unknown process or machine is 404."""
    long_up = (1 << 53) + 1  # which a browser rounds
    times = {500: 5 * MS, 900: 7 * MS, long_up: 3 * MS, long_up + 4: 11 * MS}
    rows = [of_thread(1, "on_cpu", ns, start_ns=start_ns) for start_ns, ns in times.items()]
    await store(line, "why_summary", rows)
    async with start_server() as server:
        assert (await why(server))["wall"]["total_ns"] == 11 * MS
        assert (await why(server, start=500))["wall"]["total_ns"] == 5 * MS
        assert (await why(server, start=int(float(long_up))))["wall"]["total_ns"] == 3 * MS
        for query, status in (
            ({"pid": 4712}, 404),
            ({"pid": 4711, "start": 7}, 404),
            ({"pid": 4711, "machine": "nobody"}, 404),
            ({}, 400),
            ({"pid": 0}, 400),
        ):
            assert (await server.ask("GET", "why", params={**WINDOW, **query}))[0] == status, query
        found = await why(server, until="2001-01-01T00:00:00Z", since="2000-01-01T00:00:00Z")
        assert (found["wall"], len(found["not_recorded"])) == (None, 3)
