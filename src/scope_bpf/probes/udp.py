"""UDP flows: what a socket and a peer send each other, with the process that owns the socket."""

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Settled, Stream, Summary
from scope_catalogue.codes import Codes
from scope_catalogue.guide import Example, Guide
from scope_catalogue.options import Option
from scope_catalogue.shown import Rollup, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Failed, LatestRows, Sum, Table

_NS_PER_MS = 1_000_000
_SETTLED_EVERY_MS = 1000  # so a row may be due up to half of that too early

GUIDE = Guide(
    examples=(
        Example(
            "scope trace udp --lines -- getent hosts example.org || true",
            "the flows of a command, one a line",
        ),
        Example(
            "scope trace udp --duration 1",
            "all UDP flows of the machine that end, or live, in this second",
        ),
        Example(
            "scope trace udp --mode summary --duration 1",
            "datagrams and bytes by process and peer, added up in the kernel",
        ),
    ),
    notes=(
        "A flow is a socket and a peer: one of a connected socket, many of a server's. It has a row when the socket is "
        "closed or the flow was idle for `idle_ms`, one every `report_ms` while it lives, and one at the end of the "
        "trace. A row has what happened since the flow's row before: add them up. `is_last` marks the flow's end.",
        "pid and comm are those of the process that sent or received over the socket last; without any, of the one "
        "that made it. What an interrupt handles belongs to it, too. A row without a known process has no pid and "
        "comm, and counts as incomplete.",
        "In `summary`, a datagram counts for the process that the socket belonged to when the datagram came.",
        "Bytes are those of the program, without headers.",
        "`received_datagrams` counts all that arrived for the socket; `dropped_datagrams` are those of them for which "
        "it had no room, since the program reads too slowly.",
        "`socket` is the socket's cookie, which `ss --extended` prints as `sk`.",
    ),
    limits=(
        "Failed calls are counted for connected sockets only, and from Linux 6.3 on. Calls that would have to wait "
        "(EAGAIN) are none.",
        "Before Linux 6.10, the kernel does not tell which datagrams had no room.",
        "Datagrams of the kernel's own tunnels, such as VXLAN, are not recorded.",
        "A socket that was made before the trace and was in no process then, but on its way to one (SCM_RIGHTS), has "
        "no process. Only traces of the whole machine have rows of it.",
        "Of several processes that use a socket in turns, a flow's row names only the last one.",
        "65,536 flows are kept at a time; datagrams of further ones are counted as lost, as `map_full`. With a shorter "
        "`idle_ms`, flows end sooner.",
        "Its programs run for every packet of every socket. Loading them takes the capability CAP_NET_ADMIN, too. They "
        "are attached to the root of cgroup v2 as seen by SCOPE: in a container, that may be the container's.",
    ),
)

REPORT_MS = Option(
    "report_ms",
    "integer",
    10_000,
    "time between two rows of a flow that lives, in ms",
    minimum=1000,
    maximum=3_600_000,
)
IDLE_MS = Option(
    "idle_ms",
    "integer",
    30_000,
    "a flow ends after this time without a datagram, in ms",
    minimum=1000,
    maximum=3_600_000,
)

_DIRECTION = Column(
    "outgoing if the first datagram was sent, incoming if it was received; unknown if the socket existed before"
)
_REMOTE = Column("address of the peer")
_COUNTS = {
    "sent_datagrams": Column("datagrams sent"),
    "sent_bytes": Column("bytes sent, without headers", "bytes"),
    "received_datagrams": Column("datagrams that arrived, dropped ones, too"),
    "received_bytes": Column("bytes that arrived, without headers", "bytes"),
    "dropped_datagrams": Column("datagrams that arrived when the socket had no room; unknown before Linux 6.10"),
    "errors": Column("calls that failed"),
}
_CGROUPS = "cgroup: sock_create, sock_release; cgroup_skb: egress, ingress"
_PACKETS = ("udp_released", "udp_sent", "udp_arrived", "udp_created")
_CALLS = ("udp_send", "udp_receive")

PROBE = Probe(
    name="udp",
    meaning="UDP flows: who, with whom, how many datagrams and bytes, drops and errors",
    streams=(
        Stream(
            "udp_flow",
            "what a UDP socket and a peer sent each other since the row before: at the end, and every report_ms",
            columns={
                "socket": Column("number of the socket: its cookie", identity=True),
                "local": Column("address at this end, of the first datagram"),
                "local_port": Column("port at this end"),
                "remote": _REMOTE,
                "remote_port": Column("port of the peer"),
                "netns": Column(
                    "number of the network namespace, as in /proc/PID/ns/net; absent if unknown", identity=True
                ),
                "direction": _DIRECTION,
                "ended": Column("closed: the socket was; idle: no datagram for idle_ms; not_yet"),
                "is_first": Column("1 in the first row of the flow"),
                "is_last": Column("1 if the flow has ended"),
                "lifetime_ns": Column("from the first datagram to the last one so far", "ns"),
                **_COUNTS,
                "error": Column("the last one of these, such as -ECONNREFUSED; else 0", codes=Codes.ERROR),
            },
            hidden=("tells_drops",),
            null_unless={"netns": "netns", "dropped_datagrams": "tells_drops"},
            failed="error < 0",
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "remote", "remote_port", "direction"),
                        (
                            Sum("is_first"),
                            Failed(),
                            Sum("dropped_datagrams"),
                            Sum("received_datagrams"),
                            Sum("sent_datagrams"),
                            Sum("received_bytes"),
                            Sum("sent_bytes"),
                        ),
                        title="flows by program and peer",
                    ),
                    LatestRows(
                        (
                            "pid",
                            "comm",
                            "local_port",
                            "remote",
                            "remote_port",
                            "sent_bytes",
                            "received_bytes",
                            "lifetime_ns",
                            "ended",
                        ),
                        title="latest rows",
                    ),
                ),
                line=(
                    "{local}:{local_port}",
                    "{remote}:{remote_port}",
                    "direction",
                    "sent_datagrams",
                    "sent_bytes",
                    "received_datagrams",
                    "received_bytes",
                    "dropped_datagrams",
                    "lifetime_ns",
                    "error",
                    "ended",
                ),
                timeline=Timeline(
                    slices=(
                        Slices(
                            named=("remote", "remote_port"),
                            lasting="lifetime_ns",
                            ending=True,
                            on=("socket", "remote", "remote_port"),
                            below="udp",
                            where="is_last = 1",
                        ),
                    )
                ),
            ),
            rollup=Rollup(),
            settled=Settled("udp_settle"),
        ),
        Stream(
            "udp_summary",
            "what UDP sockets and their peers sent each other, by process and peer",
            columns={
                "remote": _REMOTE,
                "port": Column("port of the server: the local one if the flows came in, else the remote one"),
                "direction": _DIRECTION,
                "begun": Column("flows that began"),
                "ended": Column("flows that ended"),
                **_COUNTS,
            },
            summary=Summary(),
            failed="errors > 0",
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "pid", "remote", "port", "direction"),
                        (
                            Sum("begun"),
                            Sum("errors"),
                            Sum("dropped_datagrams"),
                            Sum("received_datagrams"),
                            Sum("sent_datagrams"),
                            Sum("received_bytes"),
                            Sum("sent_bytes"),
                        ),
                        ranked_by=("sent_bytes", "received_bytes"),
                    ),
                )
            ),
            rollup=Rollup(count="begun"),
        ),
    ),
    extra_options=(REPORT_MS, IDLE_MS),
    ring_bytes=4 << 20,
    alternatives=(
        Alternative(
            f"{_CGROUPS}; tp_btf: sock_send_length, sock_recv_length, udp_fail_queue_rcv_skb with the packet",
            (*_PACKETS, *_CALLS, "udp_refused"),
        ),
        Alternative(f"{_CGROUPS}; tp_btf: sock_send_length, sock_recv_length", (*_PACKETS, *_CALLS)),
        Alternative(_CGROUPS, _PACKETS),
    ),
    found_by=("udp_find",),
    constants=lambda options: {
        "report_ns": (options["report_ms"] - _SETTLED_EVERY_MS // 2) * _NS_PER_MS,
        "idle_ns": options["idle_ms"] * _NS_PER_MS,
    },
    guide=GUIDE,
)
