"""Packets that the kernel drops, with its reasons; `names` has the running kernel's names of these."""

import pyarrow as pa

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Derived, Made, Rows, Stream, Summary
from scope_catalogue.guide import Example, Guide
from scope_catalogue.shown import Rollup, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, LatestRows, Sum, Table

_NAMES = pa.dictionary(pa.int32(), pa.string())

GUIDE = Guide(
    examples=(
        Example(
            "scope trace drops --lines --duration 1",
            "the packets that the machine drops in this second, one a line",
        ),
        Example(
            "scope trace drops --duration 1",
            "counts by reason, place and process",
        ),
        Example(
            "scope trace drops --mode summary --duration 1",
            "the same, added up in the kernel: for floods",
        ),
    ),
    notes=(
        "`reason` is the kernel's own name, as its tracepoint kfree_skb prints it; the names are read from the running "
        "kernel. NO_SOCKET: nobody listens; SOCKET_RCVBUFF: the receiver reads too slowly; NOT_SPECIFIED: the kernel "
        "does not say.",
        "pid and comm are those of the process that the socket belongs to, whoever ran when the packet was dropped: of "
        "the one that sent or received over the socket last, else of the one that made it. They are absent for packets "
        "that belong to no socket, such as forwarded ones, and those for a port without a listener: such rows count as "
        "incomplete.",
        "Not every drop is a fault: the kernel also drops duplicates and packets for other hosts.",
    ),
    limits=(
        "Before Linux 5.17, the kernel tells no reason. Before 6.11, it does not tell for which socket a packet was: "
        "most incoming packets have no process.",
        "Before Linux 6.3, and without CAP_NET_ADMIN, fewer sockets have a known process.",
        "Packets that a network device, XDP or a switch drops are not recorded, and nothing of Unix or netlink "
        "sockets.",
        "A packet that stands for several (GSO, GRO) is one row.",
        "Reasons of modules, such as Open vSwitch, are shown as the module's name and a number.",
    ),
)

_ATTRIBUTED = {
    "reason": Derived(Column("why, in the kernel's own words; absent if the kernel tells none"), _NAMES),
    "function": Derived(Column("function of the kernel that dropped the packet"), _NAMES),
}
_PROTOCOL = Column("tcp, udp, icmp, ...; the number of an IP protocol or EtherType that has no name here")
_NETNS = Column("number of the network namespace, as in /proc/PID/ns/net; absent if unknown", identity=True)
_DEVICE = Column("network device that the packet came from or was leaving by; absent if unknown")
_PORT = "absent if the protocol has none, and in later fragments"


def _derive(rows: Rows) -> dict[str, pa.Array]:
    from scope_bpf.probes.drops.names import functions, reasons

    return {"reason": reasons(rows["reason_number"]), "function": functions(rows["location"])}


def _ways() -> tuple[Alternative, ...]:
    created, used = ("drops_created",), ("drops_sent", "drops_received")
    ways = {
        "tp_btf: kfree_skb, sock_send_length, sock_recv_length; cgroup: sock_create": (*created, *used),
        "tp_btf: kfree_skb, sock_send_length, sock_recv_length": used,
        "tp_btf: kfree_skb; cgroup: sock_create": created,
        "tp_btf: kfree_skb": (),
    }
    return tuple(Alternative(name, (*programs, "drops_dropped")) for name, programs in ways.items())


PROBE = Probe(
    name="drops",
    meaning="packets that the kernel drops: why, where in the kernel, and whose they were",
    streams=(
        Stream(
            "drop",
            "one row per packet that the kernel drops",
            columns={
                "source": Column("address of the sender; absent if it is no IP packet"),
                "source_port": Column(f"port of the sender; {_PORT}"),
                "destination": Column("address of the receiver; absent if it is no IP packet"),
                "destination_port": Column(f"port of the receiver; {_PORT}"),
                "protocol": _PROTOCOL,
                "bytes": Column("size of the packet, from the header that the kernel had got to", "bytes"),
                "device": _DEVICE,
                "netns": _NETNS,
            },
            made=Made(derived=_ATTRIBUTED, derive=_derive),
            hidden=("reason_number", "location", "has_ports", "ifindex"),
            null_unless={
                "source_port": "has_ports",
                "destination_port": "has_ports",
                "device": "ifindex",
                "netns": "netns",
            },
            shown=Shown(
                tables=(
                    Table(
                        ("reason", "function", "protocol", "comm"),
                        (Count(), Sum("bytes")),
                        title="dropped packets by reason",
                    ),
                    LatestRows(
                        ("comm", "protocol", "source", "destination", "destination_port", "device", "reason"),
                        title="latest dropped packets",
                    ),
                ),
                line=(
                    "protocol",
                    "{source}:{source_port}",
                    "{destination}:{destination_port}",
                    "bytes",
                    "device",
                    "reason",
                    "function",
                ),
                timeline=Timeline(slices=(Slices(named=("reason",), lasting="", below="dropped packets"),)),
            ),
            rollup=Rollup(by=("reason", "protocol")),
        ),
        Stream(
            "drop_summary",
            "packets that the kernel dropped, by process, reason and place",
            columns={
                "protocol": _PROTOCOL,
                "device": _DEVICE,
                "netns": _NETNS,
                "count": Column("dropped packets"),
                "bytes": Column("their sizes, added up", "bytes"),
            },
            summary=Summary(),
            made=Made(derived=_ATTRIBUTED, derive=_derive),
            hidden=("reason_number", "location", "ifindex"),
            null_unless={"device": "ifindex", "netns": "netns"},
            shown=Shown(
                tables=(
                    Table(
                        ("reason", "function", "protocol", "device", "comm"),
                        (Sum("bytes"), Sum("count")),
                        ranked_by=("count",),
                        title="dropped packets by reason",
                    ),
                )
            ),
            rollup=Rollup(by=("reason", "protocol"), count="count"),
        ),
    ),
    alternatives=_ways(),
    found_by=("drops_find",),
    guide=GUIDE,
)
