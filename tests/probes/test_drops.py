"""The `drops` probe: packets that the kernel drops, compared with the kernel's own counters."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.probes.recording import ONE_INTERVAL_MS, Record, Recording

from scope_bpf.catalogue.target import Target
from scope_bpf.host import KERNEL_BTF
from scope_bpf.layout.btf import enum_of_kernel

DROPS = Path(__file__).parent / "workloads" / "drops.py"
ALONE = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
MACHINE = Target()
AT_CLIENT, AT_ROUTER = "02:00:00:00:00:02", "02:00:00:00:00:01"


def ran(
    record: Record, tmp_path: Path, how: str, count: int, *where: str, before: tuple[str, ...] = ALONE, **options: Any
) -> tuple[Recording, dict[str, Any]]:
    """What was recorded of drops.py, and what it printed."""
    output = tmp_path / "output"
    python = [sys.executable, "-S", "-E", str(DROPS), how, str(count), *where]
    recording = record("drops", ["sh", "-c", f'exec "$@" > {output}', "sh", *before, *python], **options)
    assert recording.status == 0
    return recording, json.loads(output.read_text())


def of_reason(recording: Recording, told: dict[str, Any], reason: str) -> list[dict[str, Any]]:
    """The rows with a reason in the workload's network namespace."""
    rows = [row for row in recording.rows("drop") if row["netns"] == told["netns"]]
    return [row for row in rows if row["reason"] == reason]


def test_a_port_without_a_listener(record: Record, tmp_path: Path) -> None:
    """Each datagram to a closed port has a row, by IPv4 and IPv6, as the kernel counts; nobody owns it."""
    recording, told = ran(record, tmp_path, "unheard", 101, target=MACHINE)
    rows = of_reason(recording, told, "NO_SOCKET")
    assert (told["more"]["Udp.NoPorts"], told["more"]["Udp6NoPorts"]) == (101, 101)
    for host in ("127.0.0.1", "::1"):
        found = [row for row in rows if row["destination"] == host]
        assert {row["destination_port"] for row in found} == {told["ports"][host]}
        assert {(row["source"], row["protocol"], row["device"], row["pid"]) for row in found} == {
            (host, "udp", "lo", None)
        }
        assert sorted(row["bytes"] for row in found) == [8 + n for n in range(101)]
    assert len(rows) == 202
    assert all(row["function"].startswith("__udp") for row in rows)
    assert len({row["source_port"] for row in rows}) == 2
    account = recording.accounts["drop"]
    assert (account.emitted, account.lost) == (recording.count("drop"), {})


def test_a_full_buffer_belongs_to_the_receiver(record: Record, tmp_path: Path) -> None:
    """Datagrams without room are rows of the process that receives: not of the one that sends or that made the socket.
    Traces of processes have these rows, too."""
    recording, told = ran(record, tmp_path, "unread", 211)
    rows = of_reason(recording, told, "SOCKET_RCVBUFF")
    assert len(rows) == told["more"]["Udp.RcvbufErrors"] == 211 - told["got"]
    assert {(row["pid"], row["comm"]) for row in rows} == {(told["receiver"], "drops-receiver")}
    assert {(row["destination_port"], row["protocol"]) for row in rows} == {(told["port"], "udp")}
    assert {row["pid"] for row in recording.rows("drop")} >= {told["receiver"]}
    assert None not in {row["pid"] for row in recording.rows("drop")}


def test_a_summary_adds_up(record: Record, tmp_path: Path) -> None:
    """In the summary, the process has the kernel's count of these datagrams in one row."""
    recording, told = ran(record, tmp_path, "unread", 307, mode="summary", interval_ms=ONE_INTERVAL_MS)
    (row,) = [row for row in recording.rows("drop_summary") if row["reason"] == "SOCKET_RCVBUFF"]
    assert (row["pid"], row["comm"], row["netns"]) == (told["receiver"], "drops-receiver", told["netns"])
    assert row["count"] == told["more"]["Udp.RcvbufErrors"] == 307 - told["got"]
    assert row["bytes"] >= row["count"] * 1009


@pytest.fixture
def routed() -> Iterator[tuple[str, str]]:
    """The network namespaces of a client and its router."""
    client, router = (f"scope{os.getpid()}{name}" for name in ("dc", "dr"))
    commands = [
        *(f"ip netns add {name}" for name in (client, router)),
        f"ip link add c0 netns {client} address {AT_CLIENT} type veth peer name r0 netns {router} address {AT_ROUTER}",
        f"ip -n {client} addr add 10.8.0.2/24 dev c0",
        f"ip -n {router} addr add 10.8.0.1/24 dev r0",
        *(f"ip -n {name} link set {link} up" for name, link in ((client, "c0"), (router, "r0"))),
        f"ip -n {client} route add default via 10.8.0.1",
        f"ip -n {router} route add 10.8.1.0/24 via 10.8.0.2",
        f"ip netns exec {router} sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.r0.rp_filter=1",
        f"ip -n {client} neigh replace 10.8.0.1 lladdr {AT_ROUTER} nud permanent dev c0",
        f"ip -n {router} neigh replace 10.8.0.2 lladdr {AT_CLIENT} nud permanent dev r0",
    ]
    try:
        for command in commands:
            subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)
        yield client, router
    finally:
        for name in (client, router):
            subprocess.run(["ip", "netns", "del", name], check=False)


@pytest.mark.parametrize(
    ("how", "told_as"),
    [("expired", ("IP_INHDR", "Ip.InHdrErrors")), ("spoofed", ("IP_RPFILTER", "TcpExt.IPReversePathFilter"))],
)
def test_a_router_drops(
    record: Record, tmp_path: Path, routed: tuple[str, str], how: str, told_as: tuple[str, str]
) -> None:
    """What a router does not forward has a row in its namespace, with its device, as its counters say."""
    client, router = routed
    reason, counter = told_as
    before = ("ip", "netns", "exec", client)
    recording, told = ran(record, tmp_path, how, 53, f"/run/netns/{router}", before=before, target=MACHINE)
    rows = of_reason(recording, told, reason)
    assert len(rows) == told["more"][counter] == 53
    source = "203.0.113.9" if how == "spoofed" else "10.8.0.2"
    assert {(row["source"], row["device"], row["pid"]) for row in rows} == {(source, "r0", None)}


def test_a_slow_device_drops(record: Record, tmp_path: Path, routed: tuple[str, str]) -> None:
    """What does not fit into the queue of a device has a row of the process that sent it, as tc counts."""
    recording, told = ran(record, tmp_path, "crowded", 53, before=("ip", "netns", "exec", routed[0]))
    rows = [row for row in recording.rows("drop") if row["netns"] == told["netns"]]
    assert len(rows) == told["dropped"] > 0
    assert {(row["pid"], row["device"], row["destination"]) for row in rows} == {(told["pid"], "c0", "10.8.1.2")}
    assert {row["reason"] for row in rows} <= {"QDISC_DROP", "QDISC_OVERLIMIT"}


def test_reasons_are_the_running_kernels() -> None:
    """The names are those that bpftool reads from this kernel."""
    command = ["bpftool", "btf", "dump", "file", str(KERNEL_BTF)]
    said = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    _, _, after = said.partition("ENUM 'skb_drop_reason' ")
    reasons = re.findall(r"^\t'(\w+)' val=(-?\d+)$", after.partition("\n[")[0], re.MULTILINE)
    assert len(reasons) > 50
    assert enum_of_kernel("skb_drop_reason") == {name: int(value) & 0xFFFFFFFF for name, value in reasons}
    assert enum_of_kernel("no_such_enum") == {}
