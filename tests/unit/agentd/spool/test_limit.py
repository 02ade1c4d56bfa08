"""The spool stays within its limit: the oldest batches are dropped and reported in a Gap."""

import contextlib
import random
from pathlib import Path

from tests.unit.agentd.spool.model import Run, Server, disk_bytes, drain

from scope_agentd.pipeline.spool import Outcome, Spool

LIMIT, SEGMENT = 64 << 10, 4 << 10


def outage(spool: Spool, run: Run, records: int, stream: str = "cuda") -> None:
    for _ in range(records):
        spool.put(run.batch(stream))


async def test_the_oldest_becomes_a_gap(tmp_path: Path) -> None:
    """The dropped batches are in one Gap with one span, with their events and times; all others are stored."""
    with contextlib.closing(Spool(tmp_path / "spool", LIMIT, SEGMENT)) as spool:
        run, server = Run(1), Server()
        spool.put(run.start())
        outage(spool, run, 1000)
        spool.put(run.end())
        dropped = spool.held().dropped_records
        await drain(spool, server.receive)
    server.check(run)
    (gap,) = server.gaps
    (span,) = gap.gap.spans
    assert (gap.gap.place, gap.gap.reason) == ("spool", "full")
    assert (span.first, span.last) == (1, dropped)
    assert (gap.gap.first_ktime_ns, gap.gap.last_ktime_ns) == (1000, dropped * 1000 + 999)
    assert gap.gap.boot_to_utc_ns == 7_000
    assert server.started == set(server.ended) == {run.run_id}


async def test_an_outage_of_a_hundred_times_the_limit(tmp_path: Path) -> None:
    """The directory never exceeds the limit, and each stream of a run has one Gap with one span."""
    directory, limit = tmp_path / "spool", LIMIT // 2
    with contextlib.closing(Spool(directory, limit, SEGMENT)) as spool:
        runs, server = [Run(1), Run(2)], Server()
        for run in runs:
            spool.put(run.start())
        most = 0
        for at in range(100 * limit // 250):
            spool.put(runs[at % 2].batch(("cuda", "syscalls", "profile")[at % 3]))
            if at % 50 == 0:
                spool.put(runs[at // 50 % 2].accounts())
                most = max(most, disk_bytes(directory))
        assert most <= limit
        assert spool.held().records * 250 > limit // 2  # records use more than half of the limit
        for run in runs:
            spool.put(run.end())
        await drain(spool, server.receive)
    for run in runs:
        server.check(run)
    assert len(server.gaps) == 6  # one of each run and stream
    assert all(len(gap.gap.spans) == 1 for gap in server.gaps)
    assert server.started == set(server.ended) == {run.run_id for run in runs}


async def test_newest_books_survive(tmp_path: Path) -> None:
    """The last reported counts of a run arrive even if their segment was dropped."""
    with contextlib.closing(Spool(tmp_path / "spool", LIMIT, SEGMENT)) as spool:
        quiet, loud, server = Run(1), Run(2), Server()
        spool.put(quiet.start())
        outage(spool, quiet, 3)
        spool.put(quiet.accounts())
        outage(spool, loud, 3000)
        await drain(spool, server.receive)
    server.check(quiet)
    assert server.accounts[quiet.run_id].streams["cuda"].emitted == sum(quiet.events["cuda"])


async def test_what_may_have_been_sent_keeps_spans_of_its_own(tmp_path: Path) -> None:
    """Sequences that were taken are not joined into one span: the server may have stored some of them."""
    with contextlib.closing(Spool(tmp_path / "spool", LIMIT, SEGMENT)) as spool:
        run, server = Run(1), Server()
        outage(spool, run, 30)
        for at in range(20):
            spooled = await spool.take()
            if at % 2:
                server.receive(spooled.record, spooled.crc32)  # stored; the answer was lost
        spool.rewind()
        outage(spool, run, 1000)
        await drain(spool, server.receive)
    server.check(run)
    spans = [span for gap in server.gaps for span in gap.gap.spans]
    assert {(span.first, span.last) for span in spans} >= {(sequence, sequence) for sequence in range(1, 21)}


async def test_an_earlier_life_and_a_gap_that_was_sent(tmp_path: Path) -> None:
    """Each sequence is settled once, even if half were stored without an answer before a restart and an outage."""
    chance, server, run = random.Random(4), Server(), Run(1)
    directory = tmp_path / "spool"
    for _ in range(3):
        with contextlib.closing(Spool(directory, LIMIT, SEGMENT)) as spool:
            outage(spool, run, 700)
            for _ in range(spool.held().records):
                spooled = await spool.take()
                if chance.random() < 0.5:
                    server.receive(spooled.record, spooled.crc32)
            assert disk_bytes(directory) <= LIMIT
    with contextlib.closing(Spool(directory, LIMIT, SEGMENT)) as spool:
        outage(spool, run, 2000)
        await drain(spool, server.receive)
    server.check(run)


async def test_runs_without_end_do_not_fill_the_spool(tmp_path: Path) -> None:
    """Starts and ends of runs are kept while there is room; then the oldest are dropped and counted."""
    directory = tmp_path / "spool"
    with contextlib.closing(Spool(directory, LIMIT, SEGMENT)) as spool:
        for name in range(700):
            run = Run(name)
            spool.put(run.start())
            spool.put(run.batch())
            spool.put(run.end())
        assert disk_bytes(directory) <= LIMIT
        server = Server()
        await drain(spool, server.receive)
        assert (699).to_bytes(16) in server.started
        assert spool.held().dropped_records > 0


async def test_a_drop_cut_short_by_a_crash(tmp_path: Path) -> None:
    """The Gap is written before the segment is deleted. If both are found, only the Gap is sent; nothing counts
    twice."""
    directory = tmp_path / "spool"
    run, server = Run(1), Server()
    spool = Spool(directory, LIMIT, SEGMENT)
    spool.put(run.start())
    outage(spool, run, 150)
    oldest = min(directory.glob("*.segment"))
    data = oldest.read_bytes()
    while oldest.exists():
        spool.put(run.batch())
    spool.close()
    oldest.write_bytes(data)
    with contextlib.closing(Spool(directory, LIMIT, SEGMENT)) as spool:
        await drain(spool, server.receive)
        assert not oldest.exists()
    server.check(run)
    assert len(server.gaps) == 1
    assert 1 not in server.stored[run.run_id, "cuda"]
    assert server.started == {run.run_id}


async def test_deferred_records_do_not_hold_up_the_others(tmp_path: Path) -> None:
    """Deferred records do not stop the others from being settled; a full spool drops deferred records too."""
    with contextlib.closing(Spool(tmp_path / "spool", LIMIT, SEGMENT)) as spool:
        run, server = Run(1), Server()
        outage(spool, run, 200)
        for at in range(200):
            spooled = await spool.take()
            spool.settle(spooled.position, Outcome.LATER if at % 10 == 0 else Outcome.STORED)
            if at % 10:
                server.receive(spooled.record, spooled.crc32)
        assert spool.held().deferred_records == 20
        outage(spool, run, 1000)
        assert spool.held().deferred_records == 0
        await drain(spool, server.receive)
    server.check(run)
