"""Soft interrupts: events without a process, and a summary without processes."""

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Stream
from scope_catalogue.shown import Live, Rollup
from scope_catalogue.stream import Column, Mode

_KIND = {"kind": Column("what for")}

PROBE = Probe(
    name="softirqs",
    meaning="soft interrupts by kind",
    streams=(
        Stream(
            "softirq", "a soft interrupt begins", columns=_KIND, live=Live(by=("kind",)), rollup=Rollup(by=("kind",))
        ),
        Stream(
            "softirq_summary",
            "soft interrupts by kind",
            columns=_KIND | {"count": Column("how many began")},
            mode=Mode.SUMMARY,
            of_processes=False,
            live=Live(by=("kind",), totals=("count",)),
            rollup=Rollup(by=("kind",), count="count"),
        ),
    ),
    alternatives=(Alternative("tp_btf: softirq_entry", ("softirq_begins",)),),
)
