"""Event counts: emitted = stored + lost, also if records arrive twice, late or never."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from tests.integration.server.records import (
    BOOT_TO_UTC_NS,
    FIRST_KTIME_NS,
    REFUSED,
    STORED,
    Line,
    Run,
    account,
    rows,
)

from scope_proto.scope.v1 import task_pb2
from scope_proto.scope.v1.record_pb2 import Account, Loss, Record
from scope_server.store.reading.queries import queries
from scope_wire.limits import MOST_COUNT


async def test_a_gap_books_only_what_is_not_stored(line: Line) -> None:
    """A gap that covers stored batches does not count their events as lost, also if it is resent."""
    run = Run()
    await line.send(*[run.batch(n + 1, rows(101, 101 * n), emitted=505) for n in (0, 1, 3)])
    gap = run.gap((1, 1, 101), (2, 2, 101), (3, 3, 101), (5, 5, 101))
    assert [answer.verdict for answer in await line.send(gap)] == [STORED]
    assert line.books() == [(505, 303, 202, 0, False)]
    assert line.losses() == {"spool/full": 202}
    await line.send(gap, gap)
    assert line.books() == [(505, 303, 202, 0, False)]


async def test_a_batch_that_comes_after_its_gap_changes_nothing(line: Line) -> None:
    """A batch that arrives after its gap is answered as stored, but its loss stays counted and its rows are dropped."""
    run = Run()
    late = run.batch(2, rows(103, 101), emitted=204)
    answers = await line.send(run.batch(1, rows(101)), run.gap((2, 2, 103)), late)
    assert [answer.verdict for answer in answers] == [STORED] * 3
    assert line.query("SELECT count(*) FROM scope.syscall") == [(101,)]
    assert line.books() == [(204, 101, 103, 0, False)]


async def test_a_span_of_several_is_taken_whole_or_not_at_all(line: Line) -> None:
    """A span of unsent sequences counts as lost once, also if resent; a gap that overlaps settled ones is refused."""
    run = Run()
    whole = run.gap((2, 9, 1009))
    assert [answer.verdict for answer in await line.send(run.batch(1, rows(101)), whole, whole)] == [STORED] * 3
    (answer,) = await line.send(run.gap((20, 20, 7), (8, 12, 400)))
    assert (answer.verdict, "but some were sent" in answer.reason) == (REFUSED, True)
    assert line.losses() == {"spool/full": 1009}
    assert line.query("SELECT settled::text FROM store.accounts") == [("{[1,10)}",)]
    assert line.backlog.counts.refused == {"breach": 1}


async def test_the_agents_losses_are_cumulative(line: Line) -> None:
    """An account adds only its increase over earlier accounts; a repeated or late account adds nothing."""
    run = Run()
    early = run.batch(1, rows(101), emitted=120, lost={("ring", "ring_full"): 19})
    late = run.accounts(
        ktime_ns=FIRST_KTIME_NS + 300 * 10**9,
        syscall=account(1120, {("ring", "ring_full"): 1009, ("batch", "unreadable"): 10}),
    )
    for record in (early, late, early, late):
        await line.send(record)
    assert line.query("SELECT count(*) FROM store.batches") == [(1,)]  # an account without rows adds no batch
    assert line.books() == [(1120, 101, 1019, 0, False)]
    assert line.losses() == {"ring/ring_full": 1009, "batch/unreadable": 10}
    assert line.query("SELECT sum(count)::bigint = lost FROM store.losses, store.accounts GROUP BY lost") == [(True,)]


async def test_reasons_without_end_are_refused(line: Line) -> None:
    """A stream has at most 500 loss reasons; a batch with a new one is refused, and its rows are counted as lost."""
    run = Run()

    def told(sequence: int, first: int, end: int) -> Record:
        lost = {("ring", f"reason_{number}"): 1 for number in range(first, end)}
        return run.batch(sequence, rows(101, 101 * sequence), emitted=101 * sequence + 500, lost=lost)

    sent = [told(1, 0, 256), told(2, 244, 500), told(3, 0, 256), told(4, 500, 501), told(5, 400, 500)]
    answers = [answer for record in sent for answer in await line.send(record)]
    assert [answer.verdict for answer in answers] == [STORED, STORED, STORED, REFUSED, STORED]
    assert "500 reasons already" in answers[3].reason
    assert line.books() == [(1005, 404, 601, 0, False)]
    losses = line.losses()
    assert losses.pop("ingest/reasons") == 101
    assert losses == {f"ring/reason_{number}": 1 for number in range(500)}


async def test_incomplete_events_are_not_lost(line: Line) -> None:
    """Incomplete events are counted as stored and not as lost; their number is shown apart."""
    run = Run()
    for sequence, incomplete in ((1, 7), (2, 13), (3, 11)):
        batch = run.batch(sequence, rows(101, 101 * sequence), emitted=101 * sequence)
        batch.batch.account.incomplete = incomplete
        await line.send(batch)
    assert line.books() == [(303, 303, 0, 0, False)]
    assert line.query("SELECT incomplete FROM scope.books") == [(13,)]


async def test_losses_have_the_time_they_were_in(line: Line) -> None:
    """A loss ends at the time of its account, and begins at the previous account or the run's start."""
    run = Run()
    await line.send(run.start())
    for minute, count in ((1, 7), (3, 20)):
        told = account(count, {("ring", "ring_full"): count})
        await line.send(run.accounts(ktime_ns=minute * 60 * 10**9, syscall=told))
    boot = datetime.fromtimestamp(BOOT_TO_UTC_NS / 1e9, UTC)
    first, second = boot + timedelta(minutes=1), boot + timedelta(minutes=3)
    assert line.query("SELECT first_time, last_time, count FROM scope.losses ORDER BY last_time") == [
        (boot, first, 7),
        (first, second, 13),
    ]


async def test_the_end_of_a_run_closes_its_books(line: Line) -> None:
    """The books close when the run has ended and all sequences are settled; at once for a stream without any."""
    run = Run()
    end = run.end({"syscall": 2}, {"syscall": account(204), "syscall_summary": account(0)}, task_pb2.TASK_END_LEASE)
    await line.send(run.start(), run.batch(1, rows(101)), end)
    assert line.books() == [(204, 101, 0, 103, False)]
    assert line.books("syscall_summary") == [(0, 0, 0, 0, True)]
    await line.send(run.batch(2, rows(103, 101)), run.start(), end)
    assert line.books() == [(204, 204, 0, 0, True)]
    assert line.query('SELECT state, "end", attach_point, ended IS NOT NULL FROM scope.runs') == [
        ("stopped", "lease", "tp_btf", True)
    ]


async def test_a_killed_agents_run_is_closed_by_its_successor(line: Line) -> None:
    """A killed agent's run is closed by the end that its next process sends; the run's state is failed."""
    run = Run()
    await line.send(run.start(), run.batch(1, rows(101), emitted=101))
    final = account(241, {("agent", "killed"): 17})
    await line.send(
        run.gap((2, 2, 123), reason="damaged"), run.end({"syscall": 2}, {"syscall": final}, task_pb2.TASK_END_KILLED)
    )
    assert line.books() == [(241, 101, 140, 0, True)]
    assert line.losses() == {"agent/killed": 17, "spool/damaged": 123}
    assert line.query('SELECT state, "end" FROM scope.runs') == [("failed", "killed")]


async def test_what_a_killed_agent_reported_but_did_not_write_is_lost(line: Line) -> None:
    """Rows of a summary that were counted in a report, but were only in the agent's memory, are lost; once."""
    run = Run()
    await line.send(run.batch(1, rows(101), emitted=115))
    final = account(103, {("agent", "killed"): 2})
    end = run.end({"syscall": 1}, {"syscall": final}, task_pb2.TASK_END_KILLED)
    for _ in range(2):
        assert [answer.verdict for answer in await line.send(end)] == [STORED]
        assert line.books() == [(115, 101, 14, 0, True)]
    assert line.losses() == {"agent/killed": 14}


@pytest.mark.parametrize("origin", ["server", "agent"])
async def test_an_unknown_run_makes_its_task(line: Line, origin: str) -> None:
    """Rows of an unknown task are stored, and the task is added as not wanted; the run's start completes it."""
    run = Run()
    await line.send(run.batch(1, rows(101)))
    assert line.query("SELECT task_id, origin, probe, wanted, definition FROM scope.tasks") == [
        (run.task_id, "agent", "syscalls", False, {})
    ]
    await line.send(run.start(task_pb2.ORIGIN_SERVER if origin == "server" else task_pb2.ORIGIN_AGENT))
    assert line.query("SELECT origin, wanted, definition->>'probe' FROM scope.tasks") == [(origin, False, "syscalls")]
    assert line.query("SELECT run_id, state, started = %s FROM scope.runs", _utc(BOOT_TO_UTC_NS)) == [
        (run.run_id, "running", True)
    ]


async def test_runs_of_one_task_have_their_own_sequences(line: Line) -> None:
    """Each run of a task numbers its batches on its own: the same sequence in two runs is two batches."""
    task = uuid.uuid4()
    one, two = Run(task), Run(task)
    answers = await line.send(one.batch(1, rows(101), 101), two.batch(1, rows(103, 101), 103))
    assert [answer.verdict for answer in answers] == [STORED] * 2
    assert line.query("SELECT count(*) FROM scope.syscall") == [(204,)]
    assert sorted(line.books()) == [(101, 101, 0, 0, False), (103, 103, 0, 0, False)]


async def test_counts_that_cannot_be_are_refused(line: Line) -> None:
    """Counts above the limit are refused; queries of many counts at the limit still work."""
    run = Run()
    huge = (1 << 63) - 1
    bad = [
        run.accounts(syscall=account(huge)),
        run.accounts(syscall=account(1, {("ring", "a"): huge, ("ring", "b"): huge})),
        run.batch(1, rows(3), emitted=3, lost={("ring", "ring_full"): MOST_COUNT + 1}),
        run.gap((5, 5, huge)),
        run.end({"syscall": huge}),
    ]
    assert {answer.verdict for answer in await line.send(*bad)} == {REFUSED}
    largest = [run.gap((n, n, MOST_COUNT)) for n in range(10, 20)]
    told = run.accounts(syscall=account(MOST_COUNT, {("ring", "a"): MOST_COUNT, ("ring", "b"): MOST_COUNT}))
    assert {answer.verdict for answer in await line.send(*largest, told)} == {STORED}
    (row,) = line.query("SELECT emitted, stored, lost FROM scope.books")
    assert row == (MOST_COUNT, 0, MOST_COUNT)
    assert line.query("SELECT sum(count) FROM scope.losses") == [(3 * MOST_COUNT + 3,)]


async def test_an_account_tells_only_of_the_agents_places(line: Line) -> None:
    """Accounts with the places `ingest` or `spool`, which only the server and gaps use, or with invalid names, are
    refused; so is a gap with a place of accounts."""
    run = Run()
    places = [("ingest", "corrupt"), ("spool", "full"), ("Ring", "x"), ("ring", ""), ("ring", "a\0b"), ("r" * 64, "x")]
    answers = await line.send(*[run.accounts(syscall=account(1, {place: 1})) for place in places])
    answers += await line.send(
        run.gap((1, 1, 1), place="ring"), run.accounts(**dict[str, Any]({"no stream": account(1)}))
    )
    assert {answer.verdict for answer in answers} == {REFUSED}
    assert line.losses() == {}


async def test_sequences_full_of_holes_are_refused(line: Line) -> None:
    """A run's settled sequences have a limited number of spans; a gap that would add one more is refused."""
    run = Run()
    many = [(3 * n, 3 * n, 1) for n in range(1, 10_001)]
    assert [answer.verdict for answer in await line.send(run.gap(*many))] == [STORED]
    (answer,) = await line.send(run.gap((50_000, 50_000, 1)))
    assert (answer.verdict, "are missing" in answer.reason) == (REFUSED, True)
    assert [answer.verdict for answer in await line.send(run.gap((4, 4, 1)))] == [STORED]


async def test_books_can_be_read_while_they_are_written(line: Line, database: str) -> None:
    """A reader of the counts blocks no writer, and sees a batch's rows and counts together."""
    run = Run()
    await line.send(run.batch(1, rows(101), emitted=101))
    with psycopg.connect(database) as reader:
        reader.execute("SELECT * FROM scope.books").fetchall()
        await line.send(run.batch(2, rows(103, 101), emitted=204))
        both = "SELECT stored, (SELECT count(*) FROM scope.syscall) FROM scope.books"
        assert reader.execute(both).fetchall() == [(204, 204)]


def _utc(ns: int) -> datetime:
    return datetime.fromtimestamp(ns / 1e9, UTC)


async def test_what_a_filter_left_out_is_neither_lost_nor_under_way(line: Line) -> None:
    """Rows that the task's filter left out are counted apart, cumulatively: an older account changes nothing."""
    run = Run()
    records = [run.batch(sequence, rows(101, 101 * sequence), emitted=500) for sequence in (1, 2)]
    for record, left_out in zip(records, (50, 190), strict=True):
        record.batch.account.left_out = left_out
    for record in (records[0], records[1], records[0]):
        await line.send(record)
    assert line.books() == [(500, 202, 0, 500 - 202 - 190, False)]
    final = Account(emitted=503, left_out=211, lost=[Loss(place="agent", reason="unread", count=503 - 202 - 211)])
    await line.send(run.end({"syscall": 2}, {"syscall": final}))
    assert line.query("SELECT left_out, lost, under_way, closed FROM scope.books") == [(211, 90, 0, True)]


async def test_a_forgotten_run_with_a_filter_closes(line: Line) -> None:
    """A run that no agent knows is closed: what is under way is lost, without what the filter left out."""
    run = Run()
    record = run.batch(1, rows(101), emitted=500)
    record.batch.account.left_out = 300
    await line.send(record)
    line.query(queries()["close_run"].decode().replace("%(run)s", "(SELECT id FROM store.runs)"))
    assert line.books() == [(500, 101, 99, 0, True)]
