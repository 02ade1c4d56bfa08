"""The `listeners` probe: queues of sockets that listen, compared with ss and with the kernel's own counters."""

import json
import os
import socket
import sys
from pathlib import Path

import pytest
from tests.probes.recording import Record

from scope_bpf.capture.columns import to_arrow
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

WORKLOADS = Path(__file__).parent / "workloads"
LISTENING, TOGETHER = WORKLOADS / "listening.py", WORKLOADS / "listening_together.py"
ALONE = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_full_queue(record: Record, tmp_path: Path, host: str) -> None:
    """The rows have the queue as ss shows it, while it is full and after, and what the kernel dropped meanwhile."""
    output = tmp_path / "output"
    python = [sys.executable, "-S", "-E", str(LISTENING), host, "7"]
    recording = record("listeners", ["sh", "-c", f'exec "$@" > {output}', "sh", *ALONE, *python], report_ms=200)
    assert recording.status == 0
    told = json.loads(output.read_text())
    rows = recording.rows("listener")
    assert {(row["pid"], row["comm"]) for row in rows} == {(told["pid"], "listeners-test")}
    assert {(row["local"], row["local_port"], row["queue_limit"]) for row in rows} == {(host, told["port"], 7)}
    assert len({(row["socket"], row["netns"]) for row in rows}) == 1
    full = [row for row in rows if row["is_full"]]
    assert told["ss"] == [8, 7]
    assert {row["queued"] for row in full} == {8}
    assert (rows[-1]["queued"], rows[-1]["is_full"]) == (0, 0)
    assert sum(row["dropped"] for row in rows) == told["dropped"] == 3
    assert [row["is_first"] for row in rows] == [1] + [0] * (len(rows) - 1)
    assert [row["is_last"] for row in rows] == [0] * (len(rows) - 1) + [1]


def test_processes_that_share_a_port(record: Record, tmp_path: Path) -> None:
    """Of two processes that listen at one port, each with a socket of its own (SO_REUSEPORT), each socket has its own
    rows, with the queue that ss shows for it."""
    output = tmp_path / "output"
    python = [sys.executable, "-S", "-E", str(TOGETHER)]
    recording = record("listeners", ["sh", "-c", f'exec "$@" > {output}', "sh", *ALONE, *python], report_ms=200)
    assert recording.status == 0
    told = json.loads(output.read_text())
    rows = recording.rows("listener")
    assert {row["local_port"] for row in rows} == {told["port"]}
    of_socket = {number: [row for row in rows if row["socket"] == number] for number in {row["socket"] for row in rows}}
    assert told["ss"] == [
        [number, *{row["pid"] for row in own}, max(row["queued"] for row in own), *{row["queue_limit"] for row in own}]
        for number, own in sorted(of_socket.items())
    ]
    assert len({pid for _, pid, _, _ in told["ss"]}) == 2
    assert sum(queued for _, _, queued, _ in told["ss"]) == 31
    for own in of_socket.values():
        assert [row["is_first"] for row in own] == [1] + [0] * (len(own) - 1)
        assert [row["is_last"] for row in own] == [0] * (len(own) - 1) + [1]


def test_a_listener_of_before_is_found(runnable: dict[str, str]) -> None:
    """A socket that listened before the trace has rows at its begin and end, with its process."""
    if reason := runnable["listeners"]:
        pytest.skip(reason)
    probe = probe_named("listeners")
    child_knows, tell_child = os.pipe()
    server = socket.create_server(("127.0.0.1", 0), backlog=3)
    port = server.getsockname()[1]
    child = os.fork()
    if not child:
        os.read(child_knows, 1)
        os._exit(0)
    server.close()
    try:
        with (
            socket.create_connection(("127.0.0.1", port)),
            Tracer(probe, parse_options(probe.options, {}), Target(pid=child)) as tracer,
        ):
            tracer.start()
            rows = [row for raw in tracer.finish() for row in to_arrow(raw).to_pylist()]
    finally:
        os.write(tell_child, b"x")
        os.waitpid(child, 0)
        os.close(child_knows)
        os.close(tell_child)
    rows = [row for row in rows if row["local_port"] == port]
    assert len(rows) == 2
    assert {(row["pid"], row["queued"], row["queue_limit"], row["is_last"]) for row in rows} == {(child, 1, 3, 0)}
