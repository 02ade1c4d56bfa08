"""`scope compare`, `aggregates`, `heatmap`, `flamegraph` and `why` with a real server."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.integration.server.api.recorded import BEGIN, WINDOW, store
from tests.integration.server.command import told
from tests.integration.server.records import FIRST_KTIME_NS, Line

StartServer = Callable[..., Any]
TIMES = ("--since", WINDOW["since"], "--until", WINDOW["until"])


async def test_what_differs_is_printed(line: Line, start_server: StartServer) -> None:
    """A line per column with its values, as a table or as JSON; texts of programs have no effect on the terminal."""
    fast = {"comm": "worker", "name": "read", "duration_ns": 1000}
    slow = {"comm": "worker", "name": "fsync\x1b[2J", "duration_ns": 5_000_000}
    await store(line, "syscall", [*([fast] * 101), *([slow] * 53)])
    words = ("compare", "syscall", "--where", "duration_ns > 1ms", *TIMES)
    async with start_server() as server:
        status, out, said = await told(server, *words)
        assert (status, said) == (0, "")
        assert "inside: 53 of 53 rows were compared\noutside: 101 of 101 rows were compared\n" in out
        assert ["name", "1.00", "100%", "fsync\\x1b[2J", "100.0%", "0.0%"] in [row.split() for row in out.splitlines()]
        status, out, _ = await told(server, *words, "--json")
        assert (status, json.loads(out)["columns"][0]["column"]) == (0, "name")
        assert "flamegraph" not in said
        status, _, said = await told(server, "compare", "syscall", "--during", "a=1", "--against-during", "a=2")
        assert (status, "there is no annotation 'a=1'" in said) == (1, True)
        status, _, said = await told(server, "compare", "syscall")
        assert (status, "where" in said) == (2, True)


async def test_groups_are_printed(line: Line, start_server: StartServer) -> None:
    """A line per group, or per step of each, with units and harmless texts, as the API counts them; or JSON."""
    fast = {"comm": "worker", "name": "read", "duration_ns": 1000}
    slow = {"comm": "worker", "name": "fsync\x1b[2J", "duration_ns": 5_000_000}
    await store(line, "syscall", [*([fast] * 101), *([slow] * 53)])
    words = ("aggregates", "syscall", "--by", "name", "--cells", "sum(duration_ns),count", *TIMES)
    async with start_server() as server:
        status, out, said = await told(server, *words)
        assert (status, said) == (0, "")
        assert [row.split() for row in out.splitlines()] == [
            ["name", "sum(duration_ns)", "count"],
            ["fsync\\x1b[2J", "265.00", "ms", "53"],
            ["read", "101.00", "µs", "101"],
        ]
        status, out, said = await told(server, *words, "--every", "1h", "--order", "count", "--top", "1")
        (head, row) = (text.split() for text in out.splitlines())
        assert (status, head[:2], row[1], row[-1]) == (0, ["time", "name"], "read", "101")
        status, out, _ = await told(server, *words, "--json")
        assert (status, [group["values"]["count"] for group in json.loads(out)["groups"]]) == (0, [53, 101])
        assert (await told(server, *words, "--where", "name = nobody"))[1] == "there are no rows in this time\n"
        status, _, said = await told(server, "aggregates", "syscall", "--by", "nam")
        assert (status, "nam" in said) == (2, True)


async def test_a_heatmap_is_drawn(line: Line, start_server: StartServer) -> None:
    """A line for each size, the largest on top: what is dark is where the values are."""
    rows = [{"duration_ns": 1100}] * 1000 + [{"duration_ns": 9000}] * 10
    await store(line, "syscall", rows)
    async with start_server() as server:
        status, out, said = await told(server, "heatmap", "syscall", "--column", "duration_ns", *TIMES)
        assert (status, said) == (0, "")
        head, *drawn, times = out.splitlines()
        assert head.startswith("duration_ns: 1,010 values, a step is ")
        assert [text.split() for text in drawn] == [
            ["8.19", "µs", "▒"],
            ["4.1", "µs"],
            ["2.05", "µs"],
            ["1.02", "µs", "█"],
        ]
        assert " to " in times
        status, out, _ = await told(server, "heatmap", "syscall", *TIMES, "--json")
        assert (status, sum(map(sum, json.loads(out)["counts"]))) == (0, 1010)
        status, _, said = await told(server, "heatmap", "syscall", "--column", "comm", *TIMES)
        assert (status, "comm" in said) == (2, True)


async def test_a_flame_graph_is_written(line: Line, start_server: StartServer, tmp_path: Path) -> None:
    """In the format that the file's ending says; if the server refuses, no file is made, and an old one is kept."""
    await store(line, "profile", [{"comm": "worker", "part": "on_cpu", "stack": "main;a", "duration_ns": 7}] * 3)
    picture, text = tmp_path / "flames.svg", tmp_path / "flames.txt"
    async with start_server() as server:
        assert (await told(server, "flamegraph", "profile", "-o", str(picture), *TIMES))[0] == 0
        assert ET.fromstring(picture.read_text()) is not None
        assert (await told(server, "flamegraph", "profile", "-o", str(text), "--by", "count", *TIMES))[0] == 0
        assert text.read_text() == "worker;on_cpu;main;a 3\n"
        status, _, said = await told(server, "flamegraph", "syscall", "-o", str(text), *TIMES)
        assert (status, "has no stacks" in said) == (2, True)
    assert text.read_text() == "worker;on_cpu;main;a 3\n"
    assert sorted(tmp_path.glob("flames*")) == [picture, text]


async def test_why_is_told(line: Line, start_server: StartServer) -> None:
    """Of a process, a request and a machine: the sentence, times with units, what lacks; and threads over time."""
    ms = 1_000_000
    second = {"ktime_ns": FIRST_KTIME_NS + 1000 * ms, "interval_ns": 1000 * ms, "tid": 7, "thread_comm": "t\x1b[2J"}
    parts = ({"on_cpu_ns": 600 * ms, "total_ns": 600 * ms}, {"blocked_ns": 400 * ms, "total_ns": 400 * ms})
    await store(line, "why_summary", [second | part for part in parts])
    await store(line, "why_process_summary", [{"comm": "worker", "on_cpu_ns": 600 * ms, "total_ns": 1000 * ms}])
    await store(line, "llama_request", [{"comm": "worker", "request": 3, "duration_ns": 50 * ms}])
    async with start_server() as server:
        status, out, said = await told(server, "why", "--pid", "4711", *TIMES)
        assert (status, out.splitlines()[0]) == (0, "Of 1 s of its threads' time: 60% on a CPU, 40% blocked.")
        assert ["t\\x1b[2J", "7", "1", "s", "600", "ms", "0", "ns", "400", "ms"] in [
            row.split() for row in out.splitlines()
        ]
        assert "scope: file_summary was not recorded: scope start NODE files --mode summary --pid 4711\n" in said
        window = ("--since", BEGIN.isoformat(), "--until", (BEGIN + timedelta(seconds=1)).isoformat())
        _, out, _ = await told(server, "why", "--pid", "4711", *window, "--timeline")
        # As many steps as the terminal is wide.
        (marks,) = (row.split()[2] for row in out.splitlines() if row.startswith("t\\x1b[2J 7 "))
        assert set(marks) == {"█"}
        status, out, _ = await told(server, "why", "llama_request", "--where", "request = 3", *TIMES)
        assert (status, out.partition(". ")[0]) == (0, "This request of worker took 50 ms")
        status, out, _ = await told(server, "why", *TIMES)
        assert (status, out.splitlines()[0]) == (0, "1 process used 600 ms of CPU time: 100% worker (4711).")
        status, out, _ = await told(server, "why", *TIMES, "--json")
        assert (status, json.loads(out)["processes"][0]["pid"]) == (0, 4711)
        status, _, said = await told(server, "why", *TIMES, "--timeline")
        assert (status, "name its --pid" in said) == (2, True)


async def test_why_names_disks_and_peers(line: Line, start_server: StartServer) -> None:
    """Without `--json`, too: each disk with its times, and each peer of connections; texts of programs do no harm."""
    disk = {"disk": "vda\x1b[2J", "operation": "read", "count": 1003, "bytes": 4096, "queue_ns": 5, "device_ns": 7000}
    await store(line, "block_summary", [disk])
    peer = {"remote": "10.0.0.7", "port": 15432, "direction": "outgoing", "begun": 3, "failed": 1, "retransmits": 2}
    sent = {"sent_bytes": 11, "received_bytes": 1 << 20, "rtt_ns": 9000, "rtt_count": 3}
    await store(line, "connection_summary", [peer | sent, {"remote": "10.0.0.8", "port": 443, "begun": 1}])
    async with start_server() as server:
        status, out, _ = await told(server, "why", "--pid", "4711", *TIMES)
    rows = [" ".join(row.split()) for row in out.splitlines()]
    assert status == 0
    assert "vda\\x1b[2J read 1,003 4 KiB 5 ns 7 µs" in rows
    assert "10.0.0.7 15432 outgoing 3 1 11 B 1 MiB 2 3 µs" in rows
    assert "10.0.0.8 443 - 1 0 0 B 0 B 0 -" in rows
