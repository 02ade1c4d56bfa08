"""Soft interrupts: events without a process, and a summary without processes."""

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Stream, Summary
from scope_catalogue.shown import Rollup, Shown
from scope_catalogue.stream import Column
from scope_catalogue.tables import Sum, Table

_KIND = {"kind": Column("what for")}

PROBE = Probe(
    name="softirqs",
    meaning="soft interrupts by kind",
    streams=(
        Stream(
            "softirq",
            "a soft interrupt begins",
            columns=_KIND,
            shown=Shown(tables=(Table(("kind",)),)),
            rollup=Rollup(by=("kind",)),
        ),
        Stream(
            "softirq_summary",
            "soft interrupts by kind",
            columns=_KIND | {"count": Column("how many began")},
            summary=Summary(of_processes=False),
            shown=Shown(tables=(Table(("kind",), (Sum("count"),)),)),
            rollup=Rollup(by=("kind",), count="count"),
        ),
    ),
    alternatives=(Alternative("tp_btf: softirq_entry", ("softirq_begins",)),),
)
