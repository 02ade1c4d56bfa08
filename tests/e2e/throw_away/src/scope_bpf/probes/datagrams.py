"""Datagrams: a tracepoint whose events have addresses."""

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Stream
from scope_catalogue.shown import Shown
from scope_catalogue.stream import Column
from scope_catalogue.tables import Table

PROBE = Probe(
    name="datagrams",
    meaning="UDP datagrams that processes send",
    streams=(
        Stream(
            "datagram",
            "a datagram is sent",
            columns={
                "source": Column("address of the sender"),
                "destination": Column("address of the receiver"),
                "port": Column("the receiver's"),
            },
            shown=Shown(tables=(Table(("comm", "destination")),)),
        ),
    ),
    alternatives=(Alternative("tp_btf: net_dev_queue", ("datagram_sent",)),),
)
