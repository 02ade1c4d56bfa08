"""The counters of /metrics include every run, even one that ended before the first read."""

from scope_agentd.pipeline.books import Books
from scope_agentd.totals import Totals
from scope_bpf.capture.account import Account

SYSCALL = ("syscalls", "syscall")


def books(emitted: int = 0, ring_full: int = 0, incomplete: int = 0) -> Books:
    made = Books(["syscall"])
    made.set_kernel({"syscall": Account(emitted, {"ring_full": ring_full} if ring_full else {}, incomplete)})
    return made


def test_a_run_between_two_looks_counts() -> None:
    """Runs that began and ended between two reads are counted."""
    totals = Totals()
    for run_id, emitted in ((b"1", 1009), (b"2", 13)):
        totals.begin(run_id, "syscalls", books(emitted, ring_full=7, incomplete=3))
        totals.end(run_id)
    counts = totals.counts()
    assert counts["emitted"] == {SYSCALL: 1022}
    assert counts["incomplete"] == {SYSCALL: 6}
    assert counts["lost"] == {(*SYSCALL, "ring", "ring_full"): 14}


def test_what_filters_left_out_counts() -> None:
    """Rows that filters left out are counted by probe and stream, like the others."""
    totals, filtered = Totals(), books(1009)
    filtered.leave_out("syscall", 13)
    totals.begin(b"1", "syscalls", filtered)
    assert totals.counts()["left_out"] == {SYSCALL: 13}
    totals.end(b"1")
    assert totals.counts()["left_out"] == {SYSCALL: 13}


def test_a_run_counts_once_while_it_records_and_when_it_has_ended() -> None:
    """A counter never falls, and no run is counted twice, even with two runs of one probe."""
    totals, first, second = Totals(), books(100), books(10)
    totals.begin(b"1", "syscalls", first)
    totals.begin(b"2", "syscalls", second)
    assert totals.counts()["emitted"] == {SYSCALL: 110}
    first.set_kernel({"syscall": Account(103)})
    assert totals.counts()["emitted"] == totals.counts()["emitted"] == {SYSCALL: 113}
    totals.end(b"1")
    assert totals.counts()["emitted"] == totals.counts()["emitted"] == {SYSCALL: 113}
