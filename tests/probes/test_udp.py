"""The `udp` probe: flows, compared with what the programs sent and with the kernel's own counters."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.probes.recording import ONE_INTERVAL_MS, Record, Recording

from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

DATAGRAMS = Path(__file__).parent / "workloads" / "datagrams.py"
ALONE = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
COUNTS = ("sent_datagrams", "sent_bytes", "received_datagrams", "received_bytes")


def ran(
    record: Record, tmp_path: Path, how: str, count: int, host: str = "127.0.0.1", **options: Any
) -> tuple[Recording, dict[str, Any]]:
    """What was recorded of datagrams.py in a network namespace of its own, and what it printed."""
    output = tmp_path / "output"
    python = [sys.executable, "-S", "-E", str(DATAGRAMS), how, str(count), host]
    recording = record("udp", ["sh", "-c", f'exec "$@" > {output}', "sh", *ALONE, *python], **options)
    assert recording.status == 0
    return recording, json.loads(output.read_text())


def total(rows: Iterable[dict[str, Any]], column: str) -> int:
    return sum(row[column] for row in rows)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_every_datagram_has_its_process(record: Record, tmp_path: Path, host: str) -> None:
    """A flow of 211 questions and answers is one row at each end, with the datagrams and bytes of the programs, their
    pid and name, as the kernel counts."""
    recording, told = ran(record, tmp_path, "ask", 211, host)
    rows = recording.rows("udp_flow")
    asked, answered = (sum((n * k) % m for n in range(211)) for k, m in ((7919, 1409), (104_729, 1201)))
    found = {row["comm"]: row for row in rows}
    assert len(rows) == len(found) == 2
    ends = [
        ("udp-client", told["client"], told["own"], told["port"], "outgoing", (211, asked, 211, answered)),
        ("udp-server", told["server"], told["port"], told["own"], "incoming", (211, answered, 211, asked)),
    ]
    for comm, pid, local_port, remote_port, direction, counts in ends:
        row = found[comm]
        assert (row["pid"], row["local"], row["remote"], row["direction"]) == (pid, host, host, direction)
        assert (row["local_port"], row["remote_port"], row["netns"]) == (local_port, remote_port, told["netns"])
        assert tuple(row[name] for name in COUNTS) == counts
        assert (row["is_first"], row["is_last"], row["ended"]) == (1, 1, "closed")
        assert (row["errors"], row["error"], row["dropped_datagrams"]) == (0, 0, 0)
        assert row["lifetime_ns"] > 0
    assert total(rows, "sent_datagrams") == told["more"]["OutDatagrams"]
    assert total(rows, "received_datagrams") == told["more"]["InDatagrams"]
    account = recording.accounts["udp_flow"]
    assert (account.emitted, account.lost, account.incomplete) == (2, {}, 0)


def test_a_socket_has_a_flow_a_peer(record: Record, tmp_path: Path) -> None:
    """A socket that sends to 101 peers has 101 flows, all of which end when it is closed."""
    recording, told = ran(record, tmp_path, "many", 101)
    rows = [row for row in recording.rows("udp_flow") if row["local_port"] == told["own"]]
    assert {row["remote_port"]: row["sent_bytes"] for row in rows} == {port: n for n, port in enumerate(told["ports"])}
    assert len({row["socket"] for row in rows}) == 1
    assert {(row["sent_datagrams"], row["pid"], row["is_last"], row["ended"]) for row in rows} == {
        (1, told["pid"], 1, "closed")
    }
    assert total(recording.rows("udp_flow"), "received_datagrams") == told["more"]["InDatagrams"] == 101


def test_datagrams_without_room_are_counted(record: Record, tmp_path: Path) -> None:
    """Datagrams that find no room are counted as dropped, as the kernel counts; all that arrived, as received."""
    recording, told = ran(record, tmp_path, "unread", 211)
    (row,) = [row for row in recording.rows("udp_flow") if row["local_port"] == told["port"]]
    assert row["received_datagrams"] == 211
    assert row["dropped_datagrams"] == told["more"]["RcvbufErrors"] == 211 - told["got"] > 0


def test_refused_datagrams_are_errors(record: Record, tmp_path: Path) -> None:
    """Calls that fail since nobody listens are the flow's errors."""
    recording, told = ran(record, tmp_path, "refused", 34)
    (row,) = recording.rows("udp_flow")
    assert (row["errors"], row["error"]) == (told["errors"], -111)
    assert row["sent_datagrams"] == 34 - told["errors"] == told["more"]["OutDatagrams"] == 17


def test_a_socket_belongs_to_who_uses_it(record: Record, tmp_path: Path) -> None:
    """A socket that one process makes and another sends over belongs to the other."""
    recording, told = ran(record, tmp_path, "handed", 7)
    (row,) = [row for row in recording.rows("udp_flow") if row["remote_port"] == told["port"]]
    assert (row["pid"], row["comm"], row["sent_datagrams"]) == (told["user"], "udp-user", 7)


def test_rows_of_a_long_flow_add_up(record: Record, tmp_path: Path) -> None:
    """A flow of several intervals has a row in each, and ends when it is idle, though its socket is open."""
    recording, told = ran(record, tmp_path, "lives", 31, report_ms=1000, idle_ms=1500)
    rows = [row for row in recording.rows("udp_flow") if row["remote_port"] == told["port"]]
    assert len(rows) > 2
    assert [row["is_first"] for row in rows] == [1] + [0] * (len(rows) - 1)
    assert [row["ended"] for row in rows] == ["not_yet"] * (len(rows) - 1) + ["idle"]
    assert (total(rows, "sent_datagrams"), total(rows, "sent_bytes")) == (31, told["sent"])


def test_a_summary_adds_up(record: Record, tmp_path: Path) -> None:
    """Counts by process and peer are those of the programs."""
    recording, told = ran(record, tmp_path, "ask", 307, mode="summary", interval_ms=ONE_INTERVAL_MS)
    rows = recording.rows("udp_summary")
    asked, answered = (sum((n * k) % m for n in range(307)) for k, m in ((7919, 1409), (104_729, 1201)))
    for direction, who, counts in [
        ("outgoing", "client", (307, asked, 307, answered)),
        ("incoming", "server", (307, answered, 307, asked)),
    ]:
        found = [row for row in rows if row["direction"] == direction]
        assert {row["port"] for row in found} == {told["port"]}
        assert (total(found, "begun"), total(found, "ended")) == (1, 1)
        assert tuple(total(found, name) for name in COUNTS) == counts
        (of_user,) = [row for row in found if row["pid"] == told[who]]
        assert of_user["received_datagrams"] >= 306, "the first one came before that process used the socket"


def test_flows_are_bounded(record: Record, tmp_path: Path) -> None:
    """More flows than are kept at a time: each datagram is in a row, or counted as lost."""
    recording, told = ran(record, tmp_path, "flood", 70_001)
    rows = recording.rows("udp_flow")
    account = recording.accounts["udp_flow"]
    assert told["more"]["OutDatagrams"] == 70_001
    assert total(rows, "sent_datagrams") + sum(account.lost.values()) == 70_001 == account.emitted
    assert account.lost["map_full"] + account.lost.get("no_state", 0) >= 70_001 - 65_536


BEFORE = """
import socket, sys
open("/proc/self/comm", "w").write("udp-before")
receiver, sender = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
receiver.bind(("127.0.0.1", 0))
sender.sendto(bytes(7919), receiver.getsockname())
print(receiver.getsockname()[1], flush=True)
sys.stdin.readline()
sender.sendto(bytes(1013), receiver.getsockname())
print("sent", flush=True)
sys.stdin.readline()
"""


def talked_after_start(runnable: dict[str, str], program: str, of_machine: bool) -> tuple[int, int, Recording]:
    """Runs a program like BEFORE. Returns its pid, the port that it printed, and what was recorded."""
    if reason := runnable["udp"]:
        pytest.skip(reason)
    probe = probe_named("udp")
    command = [sys.executable, "-S", "-c", program]
    recording = Recording()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        port = int(process.stdout.readline())
        target = Target() if of_machine else Target(pid=process.pid)
        with Tracer(probe, parse_options(probe.options, {}), target) as tracer:
            tracer.start()
            process.stdin.write("go\n")
            process.stdin.flush()
            assert process.stdout.readline() == "sent\n"
            for raw in tracer.finish():
                recording.add(raw)
            recording.accounts = tracer.accounts()
        process.communicate("end\n")
    return process.pid, port, recording


def test_sockets_of_before_are_found(runnable: dict[str, str]) -> None:
    """A socket made before the trace has its process, and a row of what happens in the trace only."""
    pid, port, recording = talked_after_start(runnable, BEFORE, of_machine=False)
    rows = recording.rows("udp_flow")
    (sent,) = [row for row in rows if row["remote_port"] == port]
    (got,) = [row for row in rows if row["local_port"] == port]
    assert (sent["sent_datagrams"], sent["sent_bytes"], sent["direction"]) == (1, 1013, "unknown")
    assert (got["received_datagrams"], got["received_bytes"], got["is_last"]) == (1, 1013, 0)
    assert {(row["pid"], row["comm"]) for row in (sent, got)} == {(pid, "udp-before")}


UNDER_WAY = """
import socket, sys
one, other = socket.socketpair()
receiver, sender = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
receiver.bind(("127.0.0.1", 0))
address = receiver.getsockname()
socket.send_fds(one, [b"x"], [receiver.fileno()])
receiver.close()
print(address[1], flush=True)
sys.stdin.readline()
sender.sendto(bytes(1013), address)
print("sent", flush=True)
sys.stdin.readline()
"""


def test_a_socket_that_no_process_has(runnable: dict[str, str]) -> None:
    """A socket on its way to a process, made before the trace, has no owner: its row has no process, in a trace of the
    machine, and is incomplete."""
    _, port, recording = talked_after_start(runnable, UNDER_WAY, of_machine=True)
    rows = recording.rows("udp_flow")
    (got,) = [row for row in rows if row["local_port"] == port]
    assert (got["pid"], got["comm"]) == (None, None)
    assert (got["received_datagrams"], got["received_bytes"], got["direction"]) == (1, 1013, "incoming")
    assert recording.accounts["udp_flow"].incomplete == sum(row["pid"] is None for row in rows)
