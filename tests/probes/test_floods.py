"""Probes of the network under floods: of SYNs from addresses that never answer, and of connections that end at once."""

import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.probes.recording import Record, Recording

from scope_bpf.capture.batch import Batch
from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

SYNS = int(os.environ.get("SCOPE_TEST_SYNS", "50_021"))  # by hand, 2,000,000
SHORT = int(os.environ.get("SCOPE_TEST_SHORT_CONNECTIONS", "30_011"))  # by hand, 200,000
ALONE = """
set -e
ip link set lo up
ip addr add 192.0.2.1/32 dev lo
ip link add sink type veth peer name hole
ip link set sink arp off up
ip link set hole up
ip route add 10.0.0.0/8 dev sink
sysctl -qw net.ipv4.tcp_syncookies="$1" net.ipv4.ip_local_port_range="1024 65000"
exec "$2" "$3" "$4" > "$5"
"""

Flooded = Callable[..., tuple[Recording, dict[str, Any]]]


def flood(program: str, output: Path, syns: int, connections: int, cookies: int) -> list[str]:
    """The command that floods a listener in a network namespace of its own. Answers to 10.0.0.0/8 go nowhere."""
    return [
        "unshare",
        "--net",
        "sh",
        "-c",
        ALONE,
        "sh",
        str(cookies),
        program,
        str(syns),
        str(connections),
        str(output),
    ]


@pytest.fixture
def flooded(record: Record, workload: Callable[[str], str], tmp_path: Path) -> Flooded:
    """What a probe recorded of a flood, and what flood.c printed."""

    def run(probe: str, *how: int, **options: Any) -> tuple[Recording, dict[str, Any]]:
        output = tmp_path / "output"
        recording = record(probe, flood(workload("flood"), output, *how), **options)
        assert recording.status == 0
        told = json.loads(output.read_text())
        tell_speed(told)
        return recording, told

    return run


def test_connections_in_a_syn_flood(flooded: Flooded) -> None:
    """Connections made in a flood of SYNs, by SYN cookies, have their rows; the SYNs have none, and none is lost.

    No handshake took longer than from the client's SYN on, though cookies alter the timestamps that would tell.
    """
    recording, told = flooded("net", SYNS, 503, 1)
    assert told["cookies"] > SYNS // 2
    rows = recording.rows("connection")
    assert Counter((row["direction"], row["pid"], row["error"]) for row in rows) == {
        ("outgoing", told["pid"], 0): 503,
        ("incoming", told["pid"], 0): 503,
    }
    assert all(row["is_first"] and row["is_last"] for row in rows)
    outgoing, incoming = ([row for row in rows if row["direction"] == which] for which in ("outgoing", "incoming"))
    begun_ns = {(row["local_port"], row["remote"]): row["ktime_ns"] - row["lifetime_ns"] for row in outgoing}
    for row in incoming:
        took_ns = row["ktime_ns"] - row["lifetime_ns"] - begun_ns[row["remote_port"], row["local"]]
        assert row["connect_ns"] is None or row["connect_ns"] <= took_ns
    account = recording.accounts["connection"]
    assert (account.emitted, account.lost) == (2 * 503, {})


def test_dropped_syns_are_the_listeners(flooded: Flooded) -> None:
    """A listener whose queue a flood fills has each SYN that the kernel dropped."""
    recording, told = flooded("listeners", SYNS, 0, 0, report_ms=100)
    rows = recording.rows("listener")
    assert {(row["pid"], row["local_port"]) for row in rows} == {(told["pid"], told["port"])}
    assert sum(row["dropped"] for row in rows) == told["drops"] > SYNS // 2
    assert max(row["shaking_hands"] for row in rows) >= 128
    assert recording.accounts["listener"].lost == {}


def test_rows_of_a_flood_are_read_or_counted_as_lost(flooded: Flooded) -> None:
    """With rings of 4 KiB that are too small for a flood of connections, each row is read, or counted as lost."""
    recording, _ = flooded("net", 0, 10_007, 1, poll=False, ring_bytes=4096)
    account = recording.accounts["connection"]
    assert account.emitted == 2 * 10_007
    assert recording.count("connection") + account.lost["ring_full"] == account.emitted
    assert set(account.lost) == {"ring_full"}


@pytest.mark.parametrize(("syns", "connections"), [(0, SHORT), (SYNS, SHORT // 10)])
def test_memory_does_not_grow(
    runnable: dict[str, str], workload: Callable[[str], str], tmp_path: Path, syns: int, connections: int
) -> None:
    """A tracer whose rows are read keeps nothing of connections that have ended, nor of SYNs, also in the kernel; it
    loses no row."""
    if reason := runnable["net"]:
        pytest.skip(reason)
    probe, output = probe_named("net"), tmp_path / "output"
    rows, resident, maps = [0], [0], [0]
    with (
        closing(HeldCommand(flood(workload("flood"), output, syns, connections, 1))) as command,
        Tracer(probe, parse_options(probe.options, {}), Target(pid=command.pid)) as tracer,
    ):
        tracer.start()
        command.release()
        while command.poll() is None:
            rows.append(rows[-1] + _rows(tracer.poll(50)))
            resident.append(_resident_bytes())
            maps.append(tracer.memory_bytes())
        read = rows[-1] + _rows(tracer.finish())
        account = tracer.accounts()["connection"]
    assert (read, account.emitted, account.lost) == (2 * connections, 2 * connections, {})
    third = next(number for number, count in enumerate(rows) if count > 2 * connections // 3)
    print(f"resident {resident[third]:,} to {resident[-1]:,}, maps {maps[third]:,} to {maps[-1]:,} bytes", end="; ")
    tell_speed(json.loads(output.read_text()))
    assert resident[-1] - resident[third] < 4 << 20, "the rows of the connections since then have over 10 MB"
    assert maps[-1] - maps[third] < 1 << 20, "less than 32 bytes for each SYN or connection since then"


def tell_speed(told: dict[str, Any]) -> None:
    """Prints how fast flood.c was."""
    print(f"{told['syns_per_s']:,} SYNs and {told['connections_per_s']:,} connections a second")


def _rows(batches: list[Batch]) -> int:
    return sum(batch.count for batch in batches if batch.stream.name == "connection")


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096
