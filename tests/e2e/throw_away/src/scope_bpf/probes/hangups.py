"""Ends of TCP connections: recorded in any task, for the process that owns the socket."""

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Stream
from scope_catalogue.shown import Shown
from scope_catalogue.stream import Column
from scope_catalogue.tables import Table

PROBE = Probe(
    name="hangups",
    meaning="ends of TCP connections",
    streams=(
        Stream(
            "hangup",
            "a TCP connection ends; without a process if another one opened it",
            columns={
                "interrupted_pid": Column("the process that ran on the CPU, 0 if none did"),
                "port": Column("the peer's"),
            },
            shown=Shown(tables=(Table(("comm",)),)),
        ),
    ),
    alternatives=(Alternative("tp_btf: inet_sock_set_state", ("hangup_state",)),),
)
