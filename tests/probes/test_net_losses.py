"""The `net` probe on a link that loses chosen segments: retransmissions and round trips, against TCP_INFO and the
kernel's counters."""

import errno
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from tests.delayed_link import Delays, Loss, ip, linked_namespaces
from tests.probes.recording import Record, Recording

from scope_bpf.capture.columns import to_arrow
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

FAR_TALK = Path(__file__).parent / "workloads" / "far_talk.py"
CLIENT, SERVER = "10.7.0.1", "10.7.0.2"
DELAY_S = 0.01
COUNT = 7
CAUSES = ("syn", "timeout", "fast", "probe", "unseen")
Row = dict[str, Any]


@dataclass
class Talked:
    """What was recorded of far_talk.py, what it printed, and what the kernel counted at each end."""

    recording: Recording
    told: Row
    kernels: dict[str, dict[str, int]]

    def rows(self, who: str) -> list[Row]:
        """The rows of an end, which all are its process's."""
        port = "remote_port" if who == "client" else "local_port"
        direction = "outgoing" if who == "client" else "incoming"
        rows = [row for row in self.recording.rows("connection") if row[port] == self.told["port"]]
        assert {(row["pid"], row["comm"], row["direction"]) for row in rows} == {
            (self.told[f"{who}_pid"], f"far-{who}", direction)
        }
        assert [row["is_last"] for row in rows] == [1] * COUNT
        return rows


def command(netns: str, of_server: str, count: int, size: int, how: str) -> list[str]:
    python = [sys.executable, "-S", "-E", str(FAR_TALK)]
    return ["ip", "netns", "exec", netns, *python, SERVER, f"/run/netns/{of_server}", str(count), str(size), how]


def kernel_counters(netns: str) -> dict[str, int]:
    """The kernel's own counters of TCP, of a network namespace."""
    cat = ["ip", "netns", "exec", netns, "cat", "/proc/net/snmp", "/proc/net/netstat"]
    lines = subprocess.run(cat, capture_output=True, text=True, check=True).stdout.splitlines()
    names, values = [
        [word for line in lines[first::2] if line.startswith("Tcp") for word in line.split()[1:]] for first in (0, 1)
    ]
    return {name: int(value) for name, value in zip(names, values, strict=True)}


def talked(
    record: Record, tmp_path: Path, delays: Delays, size: int, *, how: str = "client", probes_tails: bool = True
) -> Talked:
    """What is known of COUNT connections of far_talk.py over a link."""
    output = tmp_path / "output"
    with linked_namespaces((CLIENT, SERVER), delays) as (client, server, _):
        if not probes_tails:
            ip("netns", "exec", client, "sysctl", "-qw", "net.ipv4.tcp_early_retrans=0")
        script = ["sh", "-c", f'exec "$@" > {output}', "sh"]
        recording = record("net", [*script, *command(client, server, COUNT, size, how)])
        kernels = {"client": kernel_counters(client), "server": kernel_counters(server)}
    assert recording.status == 0
    assert recording.accounts["connection"].lost == {}
    return Talked(recording, json.loads(output.read_text()), kernels)


def causes(rows: list[Row]) -> Counter[str]:
    """The retransmissions by cause, of which each row has the sum."""
    assert all(row["retransmits"] == sum(row[f"{cause}_retransmits"] for cause in CAUSES) for row in rows)
    return Counter({cause: sum(row[f"{cause}_retransmits"] for row in rows) for cause in CAUSES})


def check_causes(got: Talked, who: str, forced: str, times: int) -> None:
    """The kernel counted the forced cause at least so often, on a busy machine others, too; the rows have as many.

    Few are unseen, and no cause has more than the kernel counted.
    """
    found, kernels = causes(got.rows(who)), got.kernels[who]
    expected = {
        "syn": kernels["TCPSynRetrans"],
        "timeout": kernels["TCPTimeouts"] + kernels["TCPSlowStartRetrans"],
        "fast": kernels["TCPFastRetrans"],
        "probe": kernels["TCPLossProbes"],
    }
    if who == "client":
        expected["timeout"] -= expected["syn"]  # those of its SYNs
    assert sum(found.values()) == kernels["RetransSegs"]
    assert found["unseen"] <= kernels["RetransSegs"] // 4
    assert expected[forced] >= times
    for cause, count in expected.items():
        assert found[cause] <= count, cause
    assert expected[forced] <= found[forced] + found["unseen"]
    of_end = got.told[who]
    assert [row["retransmits"] for row in got.rows(who)] == [one["total_retrans"] for one in of_end]
    assert [row["retransmitted_bytes"] for row in got.rows(who)] == [one["bytes_retrans"] for one in of_end]


def test_timeouts(record: Record, tmp_path: Path) -> None:
    """A segment that is lost three times is sent again by three timeouts, and has its process, whoever runs then."""
    got = talked(record, tmp_path, Delays(DELAY_S, losses=[Loss(0, 1, last=3)]), 1009, probes_tails=False)
    check_causes(got, "client", "timeout", 3 * COUNT)
    for who in ("client", "server"):
        assert median(row["connect_ns"] for row in got.rows(who) if row["connect_ns"]) >= 2 * DELAY_S * 1e9


def test_probes_of_a_lost_tail(record: Record, tmp_path: Path) -> None:
    """The last segment of a burst that is lost is sent again as a probe, before a timeout."""
    got = talked(record, tmp_path, Delays(DELAY_S, losses=[Loss(0, 12_011)]), 12_011)
    check_causes(got, "client", "probe", COUNT // 2)


def test_fast_retransmissions(record: Record, tmp_path: Path) -> None:
    """A segment that is lost in the middle of a stream is sent again since later ones are acknowledged."""
    got = talked(record, tmp_path, Delays(DELAY_S, losses=[Loss(0, 15_000)]), 40_009)
    check_causes(got, "client", "fast", COUNT // 2)
    assert [row["out_of_order"] for row in got.rows("server")] == [one["rcv_ooopack"] for one in got.told["server"]]


def test_syns_and_their_answers(record: Record, tmp_path: Path) -> None:
    """A SYN-ACK that is lost is sent again by the server, the SYN by the client. The client's connect took that long;
    how long the server's handshake took is unknown then."""
    got = talked(record, tmp_path, Delays(DELAY_S, losses=[Loss(1, 0), Loss(0, 0, 2, 9)]), 1009)
    check_causes(got, "client", "syn", COUNT)
    check_causes(got, "server", "syn", COUNT)
    assert all(row["syn_retransmits"] for who in ("client", "server") for row in got.rows(who))
    assert all(row["connect_ns"] > 900_000_000 for row in got.rows("client")), "the kernel waits a second"
    assert {row["connect_ns"] for row in got.rows("server")} == {None}


def test_counters_are_those_of_tcp_info(record: Record, tmp_path: Path) -> None:
    """Segments, round trips and reorderings of a connection that is over are what TCP_INFO tells both programs."""
    got = talked(record, tmp_path, Delays(DELAY_S, reordered=0.05), 300_007)
    columns = {
        "sent_segments": ("segs_out", 1),
        "received_segments": ("segs_in", 1),
        "retransmitted_bytes": ("bytes_retrans", 1),
        "reorderings": ("reord_seen", 1),
        "out_of_order": ("rcv_ooopack", 1),
        "srtt_ns": ("rtt", 1000),
        "min_rtt_ns": ("min_rtt", 1000),
    }
    for who in ("client", "server"):
        for column, (name, unit) in columns.items():
            assert [row[column] for row in got.rows(who)] == [one[name] * unit for one in got.told[who]], column
    assert sum(row["reorderings"] for row in got.rows("client")) > 0


def test_both_close_at_once(record: Record, tmp_path: Path) -> None:
    """When both ends close before they hear of the other's end, both wait in `closing` for an acknowledgement."""
    got = talked(record, tmp_path, Delays(DELAY_S, fins_cross=True), 1009, how="both")
    for who in ("client", "server"):
        for row in got.rows(who):
            assert row["fin_wait1_ns"] > 0 < row["closing_ns"]
            assert not (row["fin_wait2_ns"] or row["close_wait_ns"] or row["last_ack_ns"])
            waited_ns = row["established_ns"] + row["fin_wait1_ns"] + row["closing_ns"]
            began = row["connect_ns"] if who == "client" else 0  # an incoming connection begins as it is established
            assert 0 <= row["lifetime_ns"] - waited_ns - began < 10_000_000
            assert row["ended"] == "closed_here"


def test_connections_that_time_out(record: Record, tmp_path: Path) -> None:
    """A connection whose segments never arrive ends by a timeout, with the error that its program gets."""
    got = talked(record, tmp_path, Delays(DELAY_S, losses=[Loss(0, 1, last=9999)]), 1009, how="never")
    assert got.told["errors"] == [errno.ETIMEDOUT] * COUNT
    assert [(row["ended"], row["error"]) for row in got.rows("client")] == [("timed_out", -errno.ETIMEDOUT)] * COUNT


def test_round_trips_of_a_living_connection(runnable: dict[str, str]) -> None:
    """Rows of an open connection have the round trips that TCP_INFO tells the program, not less than the link's."""
    if reason := runnable["net"]:
        pytest.skip(reason)
    probe = probe_named("net")
    rows: list[Row] = []
    with linked_namespaces((CLIENT, SERVER), Delays(DELAY_S)) as (client, server, _):
        words = command(client, server, COUNT, 1009, "waits")
        with (
            subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
            Tracer(probe, parse_options(probe.options, {"report_ms": 200}), Target(pid=process.pid)) as tracer,
        ):
            assert process.stdin and process.stdout
            tracer.start()
            process.stdin.write("\n")
            process.stdin.flush()
            for _ in range(COUNT):
                told = json.loads(process.stdout.readline())
                while not (later := [row for row in rows if row["ktime_ns"] > told["at_ns"]]):
                    new = [row for raw in tracer.poll(50) for row in to_arrow(raw).to_pylist()]
                    rows += [row for row in new if row["direction"] == "outgoing"]
                assert (later[0]["srtt_ns"], later[0]["min_rtt_ns"]) == (told["rtt"] * 1000, told["min_rtt"] * 1000)
                assert later[0]["srtt_ns"] >= later[0]["min_rtt_ns"] >= 2 * DELAY_S * 1e9
                assert sum(row["received_segments"] for row in rows) == told["segs_in"]
                process.stdin.write("\n")
                process.stdin.flush()
            process.communicate()
    assert [row["is_first"] for row in rows] == [1] + [0] * (len(rows) - 1)
    assert {row["ended"] for row in rows} == {"not_yet"}
