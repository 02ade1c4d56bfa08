"""The `net` probe: TCP connections, compared with what the programs sent, with ss and with the kernel's counters."""

import errno
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from tests import cached
from tests.delayed_link import DelayedLink, Delays, linked_namespaces
from tests.probes.recording import ONE_INTERVAL_MS, Record, Recording

from scope_bpf.capture.columns import to_arrow
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

CONNECTIONS = Path(__file__).parent / "workloads" / "connections.py"
KEPT = CONNECTIONS.with_name("kept.c")
MANY = int(os.environ.get("SCOPE_TEST_CONNECTIONS", "10_007"))  # on loopback; by hand, 100,000
FAR = int(os.environ.get("SCOPE_TEST_FAR_CONNECTIONS", "47"))  # between two namespaces
IN_A_NAMESPACE = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


def ran(
    record: Record,
    tmp_path: Path,
    how: str,
    count: int,
    *where: str,
    before: tuple[str, ...] = (),
    **options: Any,
) -> tuple[Recording, dict[str, Any]]:
    """What was recorded of connections.py, and what it printed."""
    output = tmp_path / "output"
    python = [sys.executable, "-S", "-E", str(CONNECTIONS), how, str(count), *(where or ("127.0.0.1",))]
    recording = record("net", ["sh", "-c", f'exec "$@" > {output}', "sh", *before, *python], **options)
    assert recording.status == 0
    return recording, json.loads(output.read_text())


def connections(recording: Recording, direction: str, *ports: int) -> list[dict[str, Any]]:
    """The rows of a direction, of the servers at these ports."""
    column = "remote_port" if direction == "outgoing" else "local_port"
    return [row for row in recording.rows("connection") if row["direction"] == direction and row[column] in ports]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_every_byte_has_its_process(record: Record, tmp_path: Path, host: str) -> None:
    """Each of 101 connections has a row at each end: with the bytes that the programs sent, and their pid and name."""
    recording, told = ran(record, tmp_path, "talk", 101, host)
    ends = [("outgoing", "client", "net-client", 0), ("incoming", "server", "net-server", 1)]
    for direction, who, name, sends in ends:
        rows = connections(recording, direction, told["port"])
        assert {(row["pid"], row["comm"], row["local"], row["remote"]) for row in rows} == {
            (told[who], name, host, host)
        }
        peer = "local_port" if direction == "outgoing" else "remote_port"
        found = {row[peer]: (row["sent_bytes"], row["received_bytes"]) for row in rows}
        assert len(rows) == len(found) == 101
        assert [found[port] for port in told["ports"]] == [(sizes[sends], sizes[1 - sends]) for sizes in told["sizes"]]
        assert all(row["is_first"] and row["is_last"] and not row["existed"] for row in rows)
        assert all(0 < row["connect_ns"] < 10**9 and row["min_rtt_ns"] for row in rows)
        assert {row["error"] for row in rows} == {0}
    assert {row["ended"] for row in connections(recording, "outgoing", told["port"])} == {"closed_here"}
    assert {row["ended"] for row in connections(recording, "incoming", told["port"])} == {"closed_by_peer"}
    account = recording.accounts["connection"]
    assert (account.emitted, account.lost, account.incomplete) == (recording.count("connection"), {}, 0)


def test_ten_thousand_are_the_kernels(record: Record, tmp_path: Path) -> None:
    """Many short connections have one row each at each end, as the kernel's own counters say; none is lost."""
    recording, told = ran(record, tmp_path, "talk", MANY, before=tuple(IN_A_NAMESPACE))
    outgoing = connections(recording, "outgoing", told["port"])
    incoming = connections(recording, "incoming", told["port"])
    assert (len(outgoing), len(incoming)) == (MANY, MANY)
    kernels, _ = told["snmp"]
    assert (kernels["ActiveOpens"], kernels["PassiveOpens"]) == (MANY, MANY)
    assert sum(row["retransmits"] for row in outgoing + incoming) == kernels["RetransSegs"]
    assert sum(row["sent_bytes"] for row in outgoing) == sum(sent for sent, _ in told["sizes"])
    assert sum(row["received_bytes"] for row in outgoing) == sum(got for _, got in told["sizes"])
    assert recording.accounts["connection"].lost == {}
    (inside,) = {row["netns"] for row in outgoing + incoming}
    assert inside != Path("/proc/self/ns/net").stat().st_ino


def test_a_summary_adds_up(record: Record, tmp_path: Path) -> None:
    """Counts, bytes and histograms by process and peer are those of the programs."""
    recording, told = ran(record, tmp_path, "talk", 211, mode="summary", interval_ms=ONE_INTERVAL_MS)
    rows = {row["direction"]: row for row in recording.rows("connection_summary") if row["port"] == told["port"]}
    for direction, who, sends in [("outgoing", "client", 0), ("incoming", "server", 1)]:
        row = rows[direction]
        assert (row["pid"], row["begun"], row["ended"], row["failed"]) == (told[who], 211, 211, 0)
        assert row["sent_bytes"] == sum(sizes[sends] for sizes in told["sizes"])
        assert row["received_bytes"] == sum(sizes[1 - sends] for sizes in told["sizes"])
        assert sum(row["connect"]) == row["connect_count"] == 211
        assert sum(row["rtt"]) == row["rtt_count"] == 211


def test_refused_connects_have_their_error(record: Record, tmp_path: Path) -> None:
    """Each of 17 refused connects has a row with -ECONNREFUSED, of the process that connected."""
    recording, told = ran(record, tmp_path, "refused", 17)
    rows = connections(recording, "outgoing", told["port"])
    assert Counter((row["error"], row["ended"], row["connect_ns"], row["pid"]) for row in rows) == {
        (-111, "connect_failed", None, recording.pid): 17
    }


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_connects_that_send_nothing_have_their_error(record: Record, tmp_path: Path, host: str) -> None:
    """A connect without a route or a free port, or with a bad address, has one row: with what the program knows."""
    recording, told = ran(record, tmp_path, "unsent", 5, host, before=tuple(IN_A_NAMESPACE))
    rows = [row for row in recording.rows("connection") if row["ended"] == "connect_failed"]
    failed = Counter((host, port, -error) for host, port, error in told["failed"])
    assert Counter((row["remote"], row["remote_port"], row["error"]) for row in rows) == failed
    assert {error for _, _, error in failed} == {-errno.ENETUNREACH, -errno.EHOSTUNREACH, -errno.EACCES} | {
        -errno.EINVAL,
        -errno.EADDRNOTAVAIL,
    }
    assert {(row["pid"], row["comm"], row["direction"], row["state"]) for row in rows} == {
        (told["pid"], "net-unsent", "outgoing", "close")
    }
    assert all(row["is_first"] and row["is_last"] and 0 < row["lifetime_ns"] < 10**9 for row in rows)
    assert {row["local_port"] for row in rows} == {0}
    assert len({row["netns"] for row in recording.rows("connection")}) == 1
    assert len(connections(recording, "outgoing", told["port"])) == 5 + told["connected"]
    account = recording.accounts["connection"]
    assert (account.emitted, account.lost, account.incomplete) == (recording.count("connection"), {}, 0)


def test_a_summary_counts_connects_that_send_nothing(record: Record, tmp_path: Path) -> None:
    """Such connects have begun, ended and failed."""
    options = {"mode": "summary", "interval_ms": ONE_INTERVAL_MS}
    recording, told = ran(record, tmp_path, "unsent", 7, before=tuple(IN_A_NAMESPACE), **options)
    failed = Counter((host, port) for host, port, _ in told["failed"])
    rows = [row for row in recording.rows("connection_summary") if row["failed"]]
    assert {(row["remote"], row["port"]): row["failed"] for row in rows} == failed
    for row in rows:
        connected = told["connected"] if row["port"] == told["port"] else 0
        assert row["pid"] == told["pid"]
        assert row["begun"] == row["failed"] + connected


def test_connects_by_io_uring_and_by_sends(
    record: Record, workload: Callable[[str], str], capfd: pytest.CaptureFixture[str]
) -> None:
    """A connect that io_uring or a send with MSG_FASTOPEN makes has one row, with its error and its process, whether it
    fails before its first packet or after it, in the process or in a worker, of a descriptor or a registered file."""
    recording = record("net", [workload("connects")])
    if recording.status == 2:
        pytest.skip("this kernel has no io_uring for this user")
    port, closed = map(int, capfd.readouterr().out.split())
    rows = [row for row in recording.rows("connection") if row["direction"] == "outgoing"]
    failed = [row for row in rows if row["ended"] == "connect_failed"]
    nowhere = "127.255.255.255"
    assert Counter((row["remote"], row["remote_port"], row["error"]) for row in failed) == {
        (nowhere, 1009, -errno.ENETUNREACH): 6,
        ("127.0.0.1", closed, -errno.ECONNREFUSED): 4,
        ("127.0.0.1", port, -errno.EADDRNOTAVAIL): 2 + 3,
        (nowhere, 1013, -errno.ENETUNREACH): 7 + 3 + 5,
        (nowhere, 1019, -errno.ENETUNREACH): 5,
    }
    assert Counter(row["remote_port"] for row in rows if row not in failed) == {port: 1 + 2}
    assert {row["pid"] for row in failed} == {recording.pid}
    assert {row["comm"] for row in failed} == {"connects", f"iou-wrk-{recording.pid}"}
    account = recording.accounts["connection"]
    assert (account.emitted, account.lost, account.incomplete) == (recording.count("connection"), {}, 0)


def test_asking_about_a_connect_is_none(record: Record, tmp_path: Path) -> None:
    """A connection whose end a second connect() tells is one row; calls that connect nothing have none."""
    recording, told = ran(record, tmp_path, "asked", 11)
    refused = [-errno.EINPROGRESS, -errno.ECONNREFUSED, -errno.EISCONN, 0] * 11
    assert [-result for result in told["told"]] == refused
    rows = connections(recording, "outgoing", told["refused"])
    assert Counter((row["error"], row["ended"]) for row in rows) == {(-errno.ECONNREFUSED, "connect_failed"): 11}
    assert len(connections(recording, "outgoing", told["port"])) == 11
    assert recording.count("connection") == 3 * 11


def test_a_dropped_syn_is_sent_again(record: Record, tmp_path: Path) -> None:
    """A connect that nobody answers for 1.6 s has sent its SYN twice; the process gives up, which is no error."""
    recording, told = ran(record, tmp_path, "unanswered", 2)
    rows = [row for row in connections(recording, "outgoing", told["port"]) if row["ended"] == "connect_failed"]
    assert [(row["syn_retransmits"], row["retransmits"], row["error"]) for row in rows] == [(1, 1, 0)] * 2


def test_resets_tell_who_sent_them(record: Record, tmp_path: Path) -> None:
    """Of 13 reset connections, one end has reset_here, the other reset_by_peer, and both have their process."""
    recording, told = ran(record, tmp_path, "resets", 13)
    for direction, ended in [("outgoing", "reset_by_peer"), ("incoming", "reset_here")]:
        rows = connections(recording, direction, told["port"])
        assert Counter((row["ended"], row["pid"]) for row in rows) == {(ended, recording.pid): 13}


def test_a_forking_server(record: Record, tmp_path: Path) -> None:
    """A connection that one process accepts and another serves belongs to the one that serves."""
    recording, told = ran(record, tmp_path, "forks", 11)
    rows = connections(recording, "incoming", told["port"])
    assert len({row["pid"] for row in rows} - {told["server"]}) == len(rows) == 11
    assert {(row["comm"], row["users"], row["sent_bytes"]) for row in rows} == {("net-worker", 1, 1009)}


@pytest.mark.parametrize("flags", [0, 0o2000000], ids=["accept", "accept4"])
def test_an_unused_connection_is_the_acceptors(
    record: Record, tmp_path: Path, capfd: pytest.CaptureFixture[str], flags: int
) -> None:
    """A connection that nobody used belongs to who accepted it, even if the kernel closes it in another process, such
    as one that reads the list of open files just then."""
    program = cached.compiled(tmp_path / "kept", "gcc", ["-O1"], KEPT)
    recording = record("net", [program, "101", str(flags)])
    acceptor, keeper, port = map(int, capfd.readouterr().out.split())
    for direction in ("outgoing", "incoming"):
        rows = connections(recording, direction, port)
        assert Counter((row["pid"], row["comm"], row["users"]) for row in rows) == {(acceptor, "kept", 1): 101}
        assert all(row["is_first"] and row["is_last"] for row in rows)
    assert keeper not in {row["pid"] for row in recording.rows("connection_user")}


def test_a_shared_connection_lists_its_processes(record: Record, tmp_path: Path) -> None:
    """A connection that two processes send over is one row, and one row of the second process; no byte counts twice."""
    recording, told = ran(record, tmp_path, "shared", 7)
    rows = connections(recording, "outgoing", told["port"])
    assert [(row["users"], row["sent_bytes"]) for row in rows] == [(2, 1012)] * 7
    users = [row for row in recording.rows("connection_user") if row["remote_port"] == told["port"]]
    assert {row["connection"] for row in users} == {row["connection"] for row in rows}
    assert {(row["comm"], row["first_pid"]) for row in users} == {("net-second", told["pid"])}
    assert [row["pid"] for row in users] == [row["pid"] for row in rows], "the last one to send owns it"


def test_processes_that_take_turns_count_once(record: Record, tmp_path: Path) -> None:
    """Of 13 processes that send in turns, each counts once. Beyond eight, those of equal pid modulo 256 are one."""
    recording, told = ran(record, tmp_path, "takes_turns", 13)
    kept, more = told["children"][:7], told["children"][7:]  # the parent, which connects, is the first
    (row,) = connections(recording, "outgoing", told["port"])
    assert (row["users"], row["sent_bytes"]) == (8 + len({pid % 256 for pid in more}), 3 * 13)
    users = [row["pid"] for row in recording.rows("connection_user")]
    assert len(users) == len(set(users)) == row["users"] - 1
    assert users[:7] == kept
    assert set(users[7:]) <= set(more)


def test_rows_of_a_long_connection_add_up(record: Record, tmp_path: Path) -> None:
    """A connection of several intervals has a row in each; their sums are those of the program and of ss."""
    recording, told = ran(record, tmp_path, "lives", 41, report_ms=200)
    rows = connections(recording, "outgoing", told["port"])
    assert len(rows) > 3
    assert [row["is_first"] for row in rows] == [1] + [0] * (len(rows) - 1)
    assert [row["is_last"] for row in rows] == [0] * (len(rows) - 1) + [1]
    assert {row["ended"] for row in rows[:-1]} == {"not_yet"}
    assert sum(row["sent_bytes"] for row in rows) == told["sent"]
    assert sum(row["received_bytes"] for row in connections(recording, "incoming", told["port"])) == told["sent"]
    said = dict(re.findall(r"(\w+):(\S+)", told["ss"]))
    assert int(said["bytes_sent"]) == told["sent"]
    assert {row["connection"] for row in rows} == {int(said["sk"], 16)}
    assert rows[-1]["min_rtt_ns"] <= float(said["minrtt"]) * 1_000_000
    closing = sum(row["sent_segments"] for row in rows) - int(said["segs_out"])
    assert 1 <= closing <= 2, "FIN, and the acknowledgement of the peer's"


STATES = ("connect", "established", "fin_wait1", "fin_wait2", "closing", "close_wait", "last_ack")


def test_times_in_states_are_the_programs(record: Record, tmp_path: Path) -> None:
    """Whoever closes first waits for the other, who is late; all times in states add up to the connection's age."""
    recording, told = ran(record, tmp_path, "lives", 11, report_ms=200)
    ends = [
        ("outgoing", {"established", "fin_wait1", "fin_wait2"}, ("fin_wait1", "fin_wait2")),
        ("incoming", {"established", "close_wait", "last_ack"}, ("close_wait",)),
    ]
    for direction, been_in, waits in ends:
        rows = [
            {state: row[f"{state}_ns"] for state in STATES} | {"lifetime": row["lifetime_ns"]}
            for row in connections(recording, direction, told["port"])
        ]
        last = rows[-1]
        assert {state for state in STATES if last[state]} == been_in | {"connect"}
        assert last["established"] >= 11 * 30_000_000
        assert sum(last[state] for state in waits) >= 100_000_000
        counted = STATES if direction == "outgoing" else STATES[1:]  # an incoming one begins as it is established
        for row in rows:
            assert 0 <= row["lifetime"] - sum(row[state] for state in counted) < 10_000_000
        assert [row["established"] for row in rows] == sorted(row["established"] for row in rows)
        assert 0 < rows[0]["established"] <= last["established"]


def test_a_closed_window_is_counted(record: Record, tmp_path: Path) -> None:
    """A sender whose peer does not read sees its window close; the reader does not."""
    recording, told = ran(record, tmp_path, "stalls", 3)
    (sender,) = connections(recording, "outgoing", told["port"])
    (reader,) = connections(recording, "incoming", told["port"])
    assert 1 <= sender["zero_windows"] <= 3 * 2
    assert reader["zero_windows"] == 0
    assert sender["sent_bytes"] == reader["received_bytes"] == told["sent"]


AT_SERVER = "10.7.0.2"
DELAY_S = 0.002


@pytest.fixture
def far() -> Iterator[tuple[str, str, DelayedLink]]:
    """The network namespaces of a client and a server, far from each other: packets are late, lost and reordered."""
    with linked_namespaces(("10.7.0.1", AT_SERVER), Delays(DELAY_S, reordered=0.02, lost=0.02)) as linked:
        yield linked


def test_retransmissions_are_the_kernels(record: Record, tmp_path: Path, far: tuple[str, str, DelayedLink]) -> None:
    """On a far and lossy path between namespaces, retransmissions equal the kernel's counters, and their causes add up,
    though packets overtake others. Most connects take as long as the path is."""
    client, server, link = far
    where = (AT_SERVER, f"/run/netns/{server}")
    recording, told = ran(record, tmp_path, "talks", FAR, *where, before=("ip", "netns", "exec", client))
    causes = [f"{cause}_retransmits" for cause in ("syn", "timeout", "fast", "probe", "unseen")]
    ends = [("outgoing", client, 0), ("incoming", server, 1)]
    for direction, netns, end in ends:
        rows = connections(recording, direction, *told["servers"])
        kernels = told["snmp"][end]
        opened = "ActiveOpens" if direction == "outgoing" else "PassiveOpens"
        assert sum(row["is_last"] for row in rows) == len(told["sizes"]) == kernels[opened]
        assert sum(row["retransmits"] for row in rows) == kernels["RetransSegs"]
        unexplained: Counter[int] = Counter()
        for row in rows:  # a connection that lives long has several
            unexplained[row["connection"]] += row["retransmits"] - sum(row[cause] for cause in causes)
        assert not any(unexplained.values())
        assert sum(row["sent_bytes"] for row in rows) == sum(sizes[end] for sizes in told["sizes"])
        assert {row["netns"] for row in rows} == {Path(f"/run/netns/{netns}").stat().st_ino}
        for cause, counter in (("syn", "TCPSynRetrans"), ("fast", "TCPFastRetrans")):
            seen, unseen = (sum(row[f"{name}_retransmits"] for row in rows) for name in (cause, "unseen"))
            assert seen <= kernels[counter] <= seen + unseen, cause
        assert kernels["TCPFastRetrans"] > 0
        assert sum(row["out_of_order"] for row in rows) > 0
    rows = connections(recording, "outgoing", *told["servers"])
    assert median(row["connect_ns"] for row in rows) >= 2 * DELAY_S * 1e9
    harm = link.harm()
    assert harm.lost and harm.overtook


BEFORE = """
import socket, sys
open("/proc/self/comm", "w").write("net-before")
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname()[:2])
accepted, _ = server.accept()
client.sendall(bytes(7919))
print(server.getsockname()[1], flush=True)
sys.stdin.readline()
client.sendall(bytes(1013))
print("sent", flush=True)
sys.stdin.readline()
"""


def test_connections_of_before_are_found(runnable: dict[str, str]) -> None:
    """A connection opened before the trace has its process, and rows of what happens in the trace only."""
    if reason := runnable["net"]:
        pytest.skip(reason)
    probe = probe_named("net")
    command = [sys.executable, "-S", "-c", BEFORE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        port = int(process.stdout.readline())
        with Tracer(probe, parse_options(probe.options, {}), Target(pid=process.pid)) as tracer:
            tracer.start()
            process.stdin.write("go\n")
            process.stdin.flush()
            assert process.stdout.readline() == "sent\n"
            rows = [row for raw in tracer.finish() for row in to_arrow(raw).to_pylist()]
        process.communicate("end\n")
    (client,) = [row for row in rows if row["remote_port"] == port]
    assert (client["pid"], client["comm"], client["direction"]) == (process.pid, "net-before", "unknown")
    assert (client["existed"], client["sent_bytes"], client["is_last"], client["state"]) == (1, 1013, 0, "established")
    (server,) = [row for row in rows if row["local_port"] == port]
    assert (server["pid"], server["received_bytes"], server["sent_bytes"]) == (process.pid, 1013, 0)
