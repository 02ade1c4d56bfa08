"""The network: TCP connections, with the processes that own them."""

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Settled, Stream, Summary
from scope_catalogue.codes import Codes
from scope_catalogue.guide import Example, Guide
from scope_catalogue.options import Option
from scope_catalogue.shown import Rollup, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, Failed, LatestRows, Quantiles, Sum, Table

_NS_PER_MS = 1_000_000

_CONNECTION = Column(
    "number of the socket: its cookie; absent if it had none yet when its connect failed", identity=True
)
_ENDS = {
    "local": Column("address at this end; an IPv4 address if an IPv6 socket uses one"),
    "local_port": Column("port at this end"),
    "remote": Column("address of the peer"),
    "remote_port": Column("port of the peer"),
    "netns": Column("number of the network namespace, as in /proc/PID/ns/net", identity=True),
}
_DIRECTION = Column("outgoing, incoming, or unknown if the connection existed before the trace")
_STATES = {
    f"{state}_ns": Column(f"time in this state so far: {meaning}", "ns")
    for state, meaning in (
        ("established", "open at both ends"),
        ("fin_wait1", "closed here first, not acknowledged yet"),
        ("fin_wait2", "closed here, acknowledged; the peer has not closed yet"),
        ("closing", "closed by both at the same time, not acknowledged yet"),
        ("close_wait", "closed by the peer; the process has not closed yet"),
        ("last_ack", "closed by the peer, then here; not acknowledged yet"),
    )
}

GUIDE = Guide(
    examples=(
        Example(
            "scope trace net --lines -- curl --silent --max-time 2 http://127.0.0.1:9/ || true",
            "the connections of a command; one that is refused, too, with the error",
        ),
        Example(
            "scope trace net --duration 1",
            "all TCP connections of the machine that end, or live, in this second",
        ),
        Example(
            "scope trace net --mode summary --duration 1",
            "bytes by process and peer, with histograms of round trips and connects",
        ),
    ),
    notes=(
        "A connection has a row at its end, one every `report_ms` while it lives, and one at the end of the trace. A "
        "row has the bytes, segments and retransmissions since the connection's row before: add them up. `is_last` "
        "marks the connection's end.",
        "pid and comm are those of the process that sent or received last; without any, of the one that connected, "
        "accepted or closed, in this order: the kernel may close what a process closes a moment later, in a process "
        "that looks at its open files. What an interrupt handles belongs to the process, too. A row without a known "
        "process has no pid and comm, and counts as incomplete. `users` counts the processes that used the connection; "
        "`connection_user` names them.",
        "A connect that fails before a packet is sent has a row, too, also by io_uring or MSG_FASTOPEN: for lack of a "
        "route or of a free port, or since something forbids it. Its `remote` is what the program asked for, its "
        "`local` 0.0.0.0 or :: unless one was chosen before, and `lifetime_ns` is the duration of the call.",
        "A connection's state changes are its times in each state, which are sums from its begin: 0 if it was never in "
        "the state. Before established it was in syn_sent or syn_recv, for `connect_ns`.",
        "Bytes are those of the program, without headers, retransmissions and FINs.",
        "`connection` is the socket's cookie, which `ss --extended` prints as `sk`.",
    ),
    limits=(
        "Connects that fail before a packet is sent have no row, or one without an error, if io_uring made them before "
        "Linux 6.0.",
        "While the probe runs, every call of every process takes longer, connect or not, as with all probes of calls.",
        "A connection that a worker of io_uring made has the worker's name as `comm` until another thread sends or "
        "receives: `iou-wrk-` and the pid.",
        "Before Linux 6.3, a process that only sends is not seen: the connection is the acceptor's.",
        "Of a connection that io_uring accepts, the process is unknown until it sends, receives or closes.",
        "Some clouds have threads of their own in which the kernel runs no BPF programs. A connection that ends in an "
        "interrupt of such a thread has no row, and the cause of a retransmission that is due there is not seen.",
        "The cause of a retransmission is not seen either if the packet could not be sent, before Linux 6.15.",
        "Sockets in TIME_WAIT have no process any more: a connection ends when it gets there. One that the process has "
        "closed gets there from fin_wait1, without any time in fin_wait2.",
        "From the ninth process that uses a connection on, those whose pids are equal modulo 256 count as one in "
        "`users` and have one row in `connection_user`.",
        "A connection that waits for accept(), or that all processes have closed, has no rows every `report_ms`: only "
        "one at its end, and none if the trace ends before.",
        "Of connections that existed before the trace, only what happens in the trace is counted.",
    ),
)

REPORT_MS = Option(
    "report_ms",
    "integer",
    10_000,
    "time between two rows of an open connection, in ms",
    minimum=100,
    maximum=3_600_000,
)

_PROGRAMS = (
    "net_state",
    "net_destroy",
    "net_retransmit",
    "net_packet",
    "net_reset_received",
    "net_reset_sent",
    "net_call_exit",
    "net_connect_enter",
)
_USES = {
    "tp_btf: sys_enter, sys_exit, inet_sock_set_state, sock_send_length, sock_recv_length, tcp_*": (
        "net_send",
        "net_receive",
    ),
    "tp_btf: sys_enter, sys_exit, inet_sock_set_state, tcp_*": ("net_received",),
}
_CONNECTS = {  # those of io_uring; the tracepoint's name since 6.5, and before
    ", io_uring_complete, io_uring_submit_req": ("net_connect_complete", "net_connect_submit"),
    ", io_uring_complete, io_uring_submit_sqe": ("net_connect_complete", "net_connect_submit_sqe"),
    "": (),
}

PROBE = Probe(
    name="net",
    meaning="TCP connections: who, with whom, how much, round trips, retransmissions, and how they end",
    streams=(
        Stream(
            "connection",
            "what a TCP connection did since its row before: at its end, and every report_ms while it lives",
            columns={
                "connection": _CONNECTION,
                **_ENDS,
                "direction": _DIRECTION,
                "state": Column("state of the connection: established, close_wait, ..., close"),
                "ended": Column(
                    "closed_here, closed_by_peer (who closed first), reset_here, reset_by_peer, timed_out, "
                    "connect_failed; not_yet while it is open"
                ),
                "error": Column("0, or -errno of the connection's end, such as -ECONNREFUSED", codes=Codes.ERROR),
                "is_last": Column("1 if the connection has ended"),
                "is_first": Column("1 in the first row of the connection"),
                "existed": Column("1 if the connection existed before the trace"),
                "lifetime_ns": Column("age of the connection; if it existed before, since it was found", "ns"),
                "connect_ns": Column(
                    "outgoing: from the first SYN to its answer; incoming: from the SYN-ACK to its answer; absent if "
                    "unknown, such as when the SYN-ACK was sent again or had a SYN cookie",
                    "ns",
                ),
                **_STATES,
                "sent_bytes": Column("bytes that the process sent, once each", "bytes"),
                "received_bytes": Column("bytes received for the process, once each", "bytes"),
                "retransmitted_bytes": Column("bytes sent again", "bytes"),
                "sent_segments": Column("segments sent, acknowledgements and retransmissions included"),
                "received_segments": Column("segments received"),
                "srtt_ns": Column("smoothed round trip at the time of the row; absent if not measured", "ns"),
                "min_rtt_ns": Column("least round trip of the last minutes; absent if not measured", "ns"),
                "retransmits": Column("segments sent again: the sum of the five causes"),
                "syn_retransmits": Column("SYNs or SYN-ACKs sent again"),
                "timeout_retransmits": Column("segments sent again after a timeout"),
                "fast_retransmits": Column("segments sent again since later ones were acknowledged"),
                "probe_retransmits": Column("segments sent again as probes of a lost tail"),
                "unseen_retransmits": Column("segments sent again for a cause that was not seen, see the limits"),
                "zero_windows": Column("how often the peer closed its window: it was slower than this end"),
                "reorderings": Column("times that acknowledgements showed segments to arrive out of order"),
                "out_of_order": Column("packets that arrived out of order"),
                "users": Column("processes that have used the connection so far; from the ninth on, at least"),
            },
            null_unless={
                "connection": "connection",
                "connect_ns": "connect_ns",
                "srtt_ns": "srtt_ns",
                "min_rtt_ns": "min_rtt_ns",
            },
            failed="error < 0",
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "remote", "remote_port", "direction"),
                        (
                            Sum("is_first"),
                            Sum("is_last"),
                            Failed(),
                            Sum("retransmits"),
                            Sum("received_bytes"),
                            Sum("sent_bytes"),
                            Quantiles("srtt_ns"),
                        ),
                        title="connections by program and peer",
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
                    "sent_bytes",
                    "received_bytes",
                    "connect_ns",
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
                            on=("connection",),
                            below="connection",
                            where="is_last = 1",
                        ),
                    )
                ),
            ),
            rollup=Rollup(measured="srtt_ns"),
            settled=Settled("net_settle", every="report_ms"),
        ),
        Stream(
            "connection_user",
            "a further process uses a connection for the first time",
            columns={
                "connection": _CONNECTION,
                **_ENDS,
                "first_pid": Column("pid of the first process that used the connection", identity=True),
            },
            shown=Shown(
                tables=(
                    Table(("comm", "local", "local_port"), (Count(),), title="further processes that use a connection"),
                ),
                line=("{local}:{local_port}", "{remote}:{remote_port}", "first_pid"),
            ),
        ),
        Stream(
            "connection_summary",
            "what TCP connections did, by process and peer",
            columns={
                "remote": _ENDS["remote"],
                "port": Column("port of the server: the local one if the connections came in, else the remote one"),
                "direction": _DIRECTION,
                "begun": Column("connections that began; failed ones, too"),
                "ended": Column("connections that ended; failed ones, too"),
                "failed": Column("connects that failed"),
                "sent_bytes": Column("bytes that the process sent, once each", "bytes"),
                "received_bytes": Column("bytes received for the process, once each", "bytes"),
                "retransmits": Column("segments sent again"),
                "connect_count": Column("connects that were measured"),
                "connect_ns": Column("sum of the times to connect", "ns"),
                "rtt_count": Column("round trips measured: one a connection and interval"),
                "rtt_ns": Column("sum of the smoothed round trips", "ns"),
                "connect": Column("histogram of the times to connect, in powers of two", "ns"),
                "rtt": Column("histogram of smoothed round trips, in powers of two", "ns"),
            },
            summary=Summary(),
            failed="failed > 0",
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "pid", "remote", "port", "direction"),
                        (
                            Sum("begun"),
                            Sum("failed"),
                            Sum("retransmits"),
                            Sum("received_bytes"),
                            Sum("sent_bytes"),
                            Quantiles("rtt"),
                            Quantiles("connect"),
                        ),
                        ranked_by=("sent_bytes", "received_bytes"),
                    ),
                )
            ),
            rollup=Rollup(count="rtt_count", measured="rtt_ns", histogram="rtt"),
            settled=Settled("net_settle"),
        ),
    ),
    extra_options=(REPORT_MS,),
    ring_bytes=4 << 20,
    alternatives=tuple(
        Alternative(uses + connects, (*_PROGRAMS, *_USES[uses], *_CONNECTS[connects]))
        for uses in _USES
        for connects in _CONNECTS
    ),
    found_by=("net_settle",),
    constants=lambda options: {"report_ns": options["report_ms"] * _NS_PER_MS // 2},
    guide=GUIDE,
)
