"""Where the time of a process, a request or a machine went, from the rows of recorded streams; what lacks is said."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.integration.server.api.recorded import BEGIN, WINDOW, store
from tests.integration.server.records import FIRST_KTIME_NS, Line, Run, account
from tests.integration.server.running import Server

StartServer = Callable[..., Any]
MS = 1_000_000
FIRST = FIRST_KTIME_NS
PARTS = ("total_ns", "on_cpu_ns", "run_queue_ns", "blocked_ns")
REQUEST = {"context": 0x7F00, "sequence": 1, "request": 3}


async def why(server: Server, **query: Any) -> Any:
    status, answer = await server.ask("GET", "why", params={**WINDOW, **query})
    assert status == 200, answer
    return answer


def of_thread(tid: int, part: str, ns: int, **more: Any) -> dict[str, Any]:
    return {"tid": tid, "thread_comm": f"t{tid}", "part": part, "total_ns": ns, f"{part}_ns": ns, "count": 1, **more}


async def test_from_why_files_and_syscalls(line: Line, start_server: StartServer) -> None:
    """The wall time adds up over threads and intervals; calls have their files; another process is not in it."""
    read = {"blocked_in": "read", "file_kind": "file", "path": "/data/x", "disk": "vda"}
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
        found = await why(server, pid=4711)
    assert found["sentence"] == (
        "Of 200 ms of its threads' time: 61% waiting for a CPU, 29% blocked, 10% on a CPU. "
        "Of the time blocked: 69% in read of /data/x (vda), 31% in futex."
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
    names = ("call", "path", "disk", "remote", "blocked_ns", "count")
    assert [first[name] for name in names] == ["read", "/data/x", "vda", None, 40 * MS, 2]
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
        found = await why(server, pid=4711)
    assert found["sentence"] == "Of 100 ms of its threads' time: 92% blocked, 5% waiting for a CPU."
    assert [each["path"] for each in found["files"]] == ["/data/x"]
    assert {each["stream"] for each in found["not_recorded"]} == {"why_summary", "syscall_summary"}
    assert found["losses"] == []


async def test_what_was_lost_is_told(line: Line, start_server: StartServer) -> None:
    """Losses of the streams that tell are in the answer, those of others are not, however many they are."""
    await store(line, "sched_summary", [{"tid": 1, "thread_comm": "t1", "on_cpu_ns": MS}])
    run, lost = Run(), {("ring", "ring_full"): 7}
    await line.send(
        run.start(), run.accounts(FIRST, sched_summary=account(7, lost), switch=account(7, lost), exec=account(7, lost))
    )
    line.query(
        "INSERT INTO store.losses (run, stream, place, reason, minute, first_time, last_time, count)"
        " SELECT run, stream, place, reason || number, minute, first_time, last_time, 1"
        " FROM store.losses, generate_series(1, 1009) number WHERE stream = 'exec'"
    )
    async with start_server() as server:
        for query in ({"pid": 4711}, {}):
            found = await why(server, **query)
            told = sorted((each["stream"], each["count"]) for each in found["losses"])
            assert told == [("sched_summary", 7), ("switch", 7)]


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
        found = await why(server, pid=4711)
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


async def test_waits_for_peers(line: Line, start_server: StartServer) -> None:
    """A peer that was waited for long is named; short waits for many peers, such as a server's clients, are one."""
    waits = {"blocked_in": "recvfrom", "file_kind": "socket"}
    clients = [
        of_thread(1, "blocked", MS, **waits, remote=f"10.0.{number % 7}.9", remote_port=50_000 + number)
        for number in range(53)
    ]
    database = of_thread(1, "blocked", 31 * MS, **waits, remote="::1", remote_port=5432)
    await store(line, "why_summary", [*clients, database, of_thread(1, "blocked", 16 * MS, **waits), database])
    async with start_server() as server:
        found = await why(server, pid=4711)
    assert found["sentence"].endswith(
        " Of the time blocked: 53% in recvfrom of socket, 47% in recvfrom of socket [::1]:5432."
    )
    names = ("remote", "remote_port", "count", "blocked_ns")
    assert [[call[name] for name in names] for call in found["calls"]] == [
        [None, None, 54, 69 * MS],
        ["::1", 5432, 2, 62 * MS],
    ]


async def test_waits_without_their_locks(line: Line, start_server: StartServer) -> None:
    """Where threads wait for others and no lock was recorded, the answer says how to record them."""
    await store(line, "why_summary", [of_thread(1, "blocked", 30 * MS, blocked_in="futex")])
    async with start_server() as server:
        missing = (await why(server, pid=4711))["not_recorded"]
    assert ("lock_wait", "scope start NODE locks --pid 4711") in [(each["stream"], each["remedy"]) for each in missing]


async def test_a_reused_pid_and_what_is_unknown(line: Line, start_server: StartServer) -> None:
    """The newest process is meant unless its start is given, rounded or not; an unknown process or machine is 404."""
    long_up = (1 << 53) + 1  # which a browser rounds
    times = {500: 5 * MS, 900: 7 * MS, long_up: 3 * MS, long_up + 4: 11 * MS}
    rows = [of_thread(1, "on_cpu", ns, start_ns=start_ns) for start_ns, ns in times.items()]
    await store(line, "why_summary", rows)
    async with start_server() as server:
        assert (await why(server, pid=4711))["wall"]["total_ns"] == 11 * MS
        assert (await why(server, pid=4711, start=500))["wall"]["total_ns"] == 5 * MS
        assert (await why(server, pid=4711, start=int(float(long_up))))["wall"]["total_ns"] == 3 * MS
        for query, status in (
            ({"pid": 4712}, 404),
            ({"pid": 4711, "start": 7}, 404),
            ({"pid": 4711, "machine": "nobody"}, 404),
            ({"pid": 0}, 400),
            ({"start": 500}, 400),
            ({"where": "pid = 4711", "pid": 4711}, 400),
            ({"stream": "llama_request", "pid": 4711}, 400),
            ({"stream": "llama_request"}, 404),
            ({"stream": "nonsense"}, 404),
            ({"stream": "sched_summary"}, 400),
            ({"stream": "llama_request", "where": "nonsense = 1"}, 400),
        ):
            assert (await server.ask("GET", "why", params={**WINDOW, **query}))[0] == status, query
        found = await why(server, pid=4711, until="2001-01-01T00:00:00Z", since="2000-01-01T00:00:00Z")
        assert (found["wall"], len(found["not_recorded"])) == (None, 3)


def token(at_ns: int, duration_ns: int, **more: Any) -> dict[str, Any]:
    return {**REQUEST, "ktime_ns": FIRST + at_ns, "duration_ns": duration_ns, "decode_ns": duration_ns, **more}


async def test_a_request_by_its_tokens(line: Line, start_server: StartServer) -> None:
    """Its parts are those of its own tokens and add up to it; the slowest row that meets the filter is meant."""
    whole = {
        "duration_ns": 100 * MS,
        "ttft_ns": 40 * MS,
        "generation_ns": 60 * MS,
        "comm": "llama-server",
        "has_begin": 1,
    }
    other = {**REQUEST, "request": 4, "duration_ns": 999 * MS}
    await store(line, "llama_request", [{"ktime_ns": FIRST, **REQUEST, **whole}, {"ktime_ns": FIRST, **other}])
    prompt = {"others_prompt_tokens": 5}
    tokens = [
        token(40 * MS, 40 * MS, on_cpu_ns=30 * MS, gpu_wait_ns=4 * MS, blocked_ns=MS, outside_blocked_ns=5 * MS),
        token(80 * MS, 40 * MS, run_queue_ns=29 * MS, outside_run_queue_ns=MS, stopped_ns=10 * MS, **prompt),
        token(100 * MS, 20 * MS, outside_on_cpu_ns=13 * MS, unknown_ns=2 * MS),
        token(100 * MS, 90 * MS, on_cpu_ns=90 * MS, request=4),
        token(100 * MS, 90 * MS, on_cpu_ns=90 * MS, start_ns=900),
        token(500 * MS, 90 * MS, on_cpu_ns=90 * MS),
    ]
    await store(line, "llama_token", tokens)
    async with start_server() as server:
        found = await why(server, stream="llama_request", where="pid = 4711 and request = 3")
        slowest = await why(server, stream="llama_request")
    assert found["sentence"] == (
        "This request of llama-server took 100 ms: 43% on a CPU, 30% waiting for a CPU, 10% stopped by a signal, "
        "7% not known, 6% blocked. 40% of it was in 1 piece slowed by this: another request's prompt. "
        "40% of it was in 1 piece slowed by this: stopped by a signal."
    )
    request = found["request"]
    assert {each["part"]: each["ns"] // MS for each in request["parts"]} == {
        "on_cpu": 43,
        "gpu_wait": 4,
        "run_queue": 30,
        "blocked": 6,
        "stopped": 10,
        "unknown": 7,
    }
    assert (request["split_by"], request["pieces"], request["not_split"], request["tid"]) == (
        "llama_token",
        3,
        None,
        None,
    )
    assert {each["column"]: each["ns"] for each in request["times"]} == {"ttft_ns": 40 * MS, "generation_ns": 60 * MS}
    its = f"pid = 4711 and start_ns = 500 and context = {0x7F00} and sequence = 1 and request = 3 and tid = 0"
    assert request["where"] == f"{its} and ktime_ns = {FIRST}"
    assert request["duration_ns"] == 100 * MS
    assert (found["pid"], found["start_ns"], found["wall"]) == (4711, 500, None)
    assert slowest["request"]["duration_ns"] == 999 * MS


async def test_a_request_without_its_tokens(line: Line, start_server: StartServer) -> None:
    """It says which rows lack and how to record them, and splits nothing."""
    await store(line, "llama_request", [{**REQUEST, "duration_ns": 100 * MS, "comm": "llama-server"}])
    async with start_server() as server:
        found = await why(server, stream="llama_request")
    reason = "The rows of llama_token that would tell where its time went were not recorded."
    assert found["sentence"] == f"This request of llama-server took 100 ms. {reason}"
    assert (found["request"]["parts"], found["request"]["not_split"]) == ([], reason)
    assert found["not_recorded"][0]["remedy"] == "scope start NODE llama --mode events --pid 4711"


async def test_a_request_whose_threads_are_unknown(line: Line, start_server: StartServer) -> None:
    """A request over HTTP is not split; what all threads did from its begin to its end is exact, by switches."""
    http = {"method": "POST", "path": "/api/chat", "comm": "ollama", "tid": 7, "first_byte_ns": 30 * MS}
    await store(line, "ollama_request", [{"ktime_ns": FIRST, "duration_ns": 50 * MS, **http}])
    switches = [
        switch(7, 10 * MS, on_cpu_ns=20 * MS, off_cpu_ns=MS),
        switch(7, 45 * MS, on_cpu_ns=5 * MS, run_queue_ns=10 * MS, off_cpu_ns=20 * MS),
        switch(8, 60 * MS, on_cpu_ns=17 * MS, run_queue_ns=20 * MS),
        switch(8, 70 * MS, on_cpu_ns=10 * MS),
        switch(9, 50 * MS, on_cpu_ns=50 * MS, pid=815),
    ]
    await store(line, "switch", switches)
    async with start_server() as server:
        found = await why(server, stream="ollama_request")
    assert found["sentence"].startswith("POST /api/chat of ollama took 50 ms. It is not known which of the process's")
    assert (found["request"]["parts"], found["request"]["tid"], found["threads_by"]) == ([], None, "switch")
    threads = {each["tid"]: [each[name] // MS for name in PARTS] for each in found["threads"]}
    assert threads == {7: [45, 15, 10, 20], 8: [27, 7, 20, 0]}
    assert [found["wall"][name] // MS for name in PARTS] == [72, 22, 30, 20]


async def test_a_call_by_its_thread(line: Line, start_server: StartServer) -> None:
    """What a thread does in a call is the thread's split in this time; without switches, it is said to be unknown."""
    await store(line, "syscall", [{"name": "read", "tid": 7, "comm": "cat", "ktime_ns": FIRST, "duration_ns": 10 * MS}])
    async with start_server() as server:
        unknown = await why(server, stream="syscall")
        await store(
            line, "switch", [switch(7, MS, on_cpu_ns=3 * MS), switch(7, 11 * MS, on_cpu_ns=2 * MS, off_cpu_ns=7 * MS)]
        )
        found = await why(server, stream="syscall", where="name = 'read'")
    assert unknown["sentence"] == "read of cat took 10 ms. What its thread 7 did meanwhile was not recorded."
    assert unknown["not_recorded"][0]["remedy"] == "scope start NODE sched --mode events --pid 4711"
    assert found["sentence"] == "read of cat took 10 ms: 70% blocked, 20% on a CPU, 10% not known."
    assert (found["request"]["tid"], found["request"]["split_by"]) == (7, "switch")


@pytest.mark.parametrize(("stream", "row"), [("dns", {"name": "example.org"}), ("open", {"path": "/x", "io_uring": 1})])
async def test_a_row_that_its_thread_may_not_have_been_in(
    line: Line, start_server: StartServer, stream: str, row: dict[str, Any]
) -> None:
    """An answer on the wire, and what io_uring did, are not split by what the thread that asked did meanwhile."""
    await store(line, stream, [{"tid": 7, "comm": "cat", "ktime_ns": FIRST, "duration_ns": 10 * MS, **row}])
    await store(line, "switch", [switch(7, 11 * MS, on_cpu_ns=2 * MS, off_cpu_ns=7 * MS)])
    async with start_server() as server:
        found = await why(server, stream=stream)
    assert (found["request"]["tid"], found["request"]["parts"]) == (None, [])
    assert "It is not known which of the process's threads worked on it" in found["sentence"]


def switch(tid: int, at_ns: int, **times: int) -> dict[str, Any]:
    return {"tid": tid, "comm": f"t{tid}", "ktime_ns": FIRST + at_ns, **times}


async def test_a_machine_by_process(line: Line, start_server: StartServer) -> None:
    """Processes that used CPUs most come first; one that `why` and `sched` tell of counts once, new names add up."""
    of = {"hog": {"pid": 11, "start_ns": 1}, "late": {"pid": 12, "start_ns": 2}}
    exact = {"on_cpu_ns": 30 * MS, "run_queue_ns": 50 * MS, "blocked_ns": 20 * MS, "total_ns": 100 * MS}
    await store(line, "why_process_summary", [{"comm": "late", **of["late"], **exact}])
    scheduled = [
        {"comm": "sh", **of["hog"], "on_cpu_ns": 10 * MS},
        {"comm": "hog", **of["hog"], "on_cpu_ns": 60 * MS, "off_cpu_ns": 3 * MS},
        {"comm": "late", **of["late"], "on_cpu_ns": 999 * MS},
    ]
    async with start_server() as server:
        await store(line, "sched_process_summary", scheduled)
        found = await why(server)
        nothing = await why(server, since="2000-01-01T00:00:00Z", until="2001-01-01T00:00:00Z")
        some = [await why(server, where=each) for each in ("comm = hog", "blocked_ns > 1ms", "comm = nobody")]
        for wrong in ({"where": "path = x"}, {"where": "comm = hog", "pid": "11"}):
            assert (await server.ask("GET", "why", params={**WINDOW, **wrong}))[0] == 400, wrong
    # A filter chooses rows: not those of another name; and of two streams, the one that has its column tells.
    assert [[(one["name"], one["total_ns"] // MS) for one in each["processes"]] for each in some] == [
        [("hog", 63)],
        [("late", 100)],
        [],
    ]
    assert (some[2]["sentence"], some[2]["not_recorded"]) == (
        "Nothing was recorded of processes that meet the filter.",
        [],
    )
    assert found["sentence"] == (
        "2 processes used 100 ms of CPU time: 70% hog (11), 30% late (12). They waited 50 ms for a CPU: 100% late (12)."
    )
    shown = [(one["pid"], one["start_ns"], one["stream"], one["total_ns"] // MS) for one in found["processes"]]
    assert shown == [(12, 2, "why_process_summary", 100), (11, 1, "sched_process_summary", 73)]
    assert (found["pid"], found["wall"]["total_ns"]) == (None, 173 * MS)
    assert nothing["sentence"] == "Nothing was recorded of which processes used its CPUs."
    assert nothing["not_recorded"][0]["remedy"] == "scope start NODE sched --mode summary"


async def test_threads_over_time(line: Line, start_server: StartServer) -> None:
    """Lanes are from summaries, spread over their intervals; from switches, if there are any, to the nanosecond."""
    second = 1000 * MS
    interval = {"ktime_ns": FIRST + second, "interval_ns": second}
    rows = [
        of_thread(1, "on_cpu", 600 * MS, **interval),
        of_thread(1, "blocked", 400 * MS, **interval),
        of_thread(2, "run_queue", 300 * MS, **interval),
        of_thread(2, "run_queue", 100 * MS, **interval | {"ktime_ns": FIRST + 2 * second}),
        of_thread(9, "on_cpu", 100 * MS, **interval, pid=815),
    ]
    await store(line, "why_summary", rows)
    window = {"since": BEGIN.isoformat(), "until": (BEGIN + timedelta(seconds=2)).isoformat()}
    async with start_server() as server:

        async def asked(**query: Any) -> Any:
            status, answer = await server.ask("GET", "why/timeline", params={**window, "pid": 4711, **query})
            assert status == 200, answer
            return answer

        found = await asked(steps=4)
        await store(line, "switch", [switch(7, 700 * MS, on_cpu_ns=300 * MS, run_queue_ns=100 * MS)])
        exact = await asked(steps=4)
        nothing = await asked(since="2000-01-01T00:00:00Z", until="2001-01-01T00:00:00Z")
    lanes = {
        lane["tid"]: [[ns // MS for ns in lane[name]] for name in ("on_cpu_ns", "run_queue_ns", "blocked_ns")]
        for lane in found["lanes"]
    }
    assert list(lanes) == [1, 2]
    assert lanes[1] == [[300, 300, 0, 0], [0] * 4, [200, 200, 0, 0]]
    assert lanes[2] == [[0] * 4, [150, 150, 50, 50], [0] * 4]
    assert (found["stream"], found["interval_ns"], found["step_ns"]) == ("why_summary", second, second // 2)
    (lane,) = exact["lanes"]
    assert (lane["tid"], lane["name"]) == (7, "t7")
    # The rows tell of 0.4 s of the window's 2 s, to a microsecond: only these are drawn.
    assert exact["step_ns"] // MS == 100
    assert lane["on_cpu_ns"] == pytest.approx([0, 100 * MS, 100 * MS, 100 * MS], abs=2000)
    assert lane["run_queue_ns"] == pytest.approx([100 * MS, 0, 0, 0], abs=2000)
    assert (exact["stream"], exact["interval_ns"], exact["complete"]) == ("switch", 0, True)
    assert (nothing["lanes"], nothing["stream"], nothing["not_recorded"][0]["probe"]) == ([], None, "why")
