"""Alarms: recorded in an interrupt, for the process that set them."""

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Stream
from scope_catalogue.shown import Shown
from scope_catalogue.stream import Column
from scope_catalogue.tables import Table

PROBE = Probe(
    name="alarms",
    meaning="alarms of processes",
    streams=(
        Stream(
            "alarm",
            "an alarm that a process has set rings",
            columns={"interrupted_pid": Column("the process that ran on the CPU, 0 if none did")},
            shown=Shown(tables=(Table(("comm",)),)),
        ),
    ),
    alternatives=(Alternative("tp_btf: itimer_expire, itimer_state", ("alarm_rings", "alarm_set")),),
)
