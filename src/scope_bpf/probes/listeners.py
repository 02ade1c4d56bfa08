"""Listeners: TCP sockets that listen, with their queues of connections and what they dropped."""

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Settled, Stream
from scope_catalogue.guide import Example, Guide
from scope_catalogue.options import Option
from scope_catalogue.shown import Counter, Rollup, Shown, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import LatestRows, Sum, Table

_NS_PER_MS = 1_000_000

GUIDE = Guide(
    examples=(
        Example(
            "scope trace listeners --lines --duration 1",
            "the sockets of the machine that listen, each with its queues",
        ),
        Example(
            "scope trace listeners -o report_ms=200 --duration 1",
            "the same, looked at five times a second",
        ),
    ),
    notes=(
        "Each socket that listens has a row every `report_ms`, one when it stops, and one at the end of the trace. "
        "Where several sockets share a port (SO_REUSEPORT), each has rows and queues of its own; `socket` tells "
        "them apart.",
        "`queued` connections wait for accept(); the queue is full when there are more than `queue_limit`: the lesser "
        "of listen()'s backlog and net.core.somaxconn. `ss -ltn` shows the same two as Recv-Q and Send-Q.",
        "`dropped` counts the SYNs, and the last packets of handshakes, that were dropped since the row before, as "
        "TcpExtListenDrops does for all sockets: mostly since the queue was full. `scope trace drops` has the packets "
        "for which the kernel gives a reason.",
        "pid and comm are those of the process that called listen(); of sockets that listened before the trace, of one "
        "that has the socket.",
    ),
    limits=("The queues are looked at every `report_ms`: what happens between is told by `dropped` only.",),
)

REPORT_MS = Option(
    "report_ms", "integer", 1000, "time between two rows of a socket, in ms", minimum=100, maximum=3_600_000
)

PROBE = Probe(
    name="listeners",
    meaning="TCP sockets that listen: how many connections wait for accept(), and how many were dropped",
    streams=(
        Stream(
            "listener",
            "the queues of a socket that listens: every report_ms, and when it stops",
            columns={
                "socket": Column("number of the socket: its cookie", identity=True),
                "local": Column("address that it listens at; 0.0.0.0 and ::: any"),
                "local_port": Column("port that it listens at"),
                "netns": Column("number of the network namespace, as in /proc/PID/ns/net", identity=True),
                "queued": Column("connections that wait for accept()"),
                "queue_limit": Column("how many may wait"),
                "is_full": Column("1 if no further connection finds room"),
                "shaking_hands": Column("connections that are not established yet: SYNs that were answered"),
                "dropped": Column("connections dropped since the row before: SYNs, and ends of handshakes"),
                "is_first": Column("1 in the first row of the socket"),
                "is_last": Column("1 if it stopped to listen"),
            },
            failed="dropped > 0",
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "local", "local_port"),
                        (Sum("is_full"), Sum("dropped")),
                        title="connections dropped by listeners",
                    ),
                    LatestRows(
                        ("pid", "comm", "local", "local_port", "queued", "queue_limit", "shaking_hands", "dropped"),
                        title="latest rows",
                    ),
                ),
                line=("{local}:{local_port}", "queued", "queue_limit", "shaking_hands", "dropped"),
                timeline=Timeline(counters=(Counter("queued", by=("local_port",)),)),
            ),
            rollup=Rollup(),
            settled=Settled("listeners_settle", every="report_ms"),
        ),
    ),
    extra_options=(REPORT_MS,),
    alternatives=(Alternative("tp_btf: inet_sock_set_state", ("listeners_state",)),),
    found_by=("listeners_settle",),
    constants=lambda options: {"report_ns": options["report_ms"] * _NS_PER_MS // 2},
    guide=GUIDE,
)
