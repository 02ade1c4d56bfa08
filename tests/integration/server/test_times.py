"""Wrong clocks: a machine's rows are kept, and no agent can create an unlimited number of tables."""

import time
from dataclasses import replace

import pyarrow as pa
from tests.integration.server.records import BOOT_TO_UTC_NS, FIRST_KTIME_NS, REFUSED, STORED, Line, Run, rows

DAY_NS = 24 * 3600 * 10**9
TIMES_NS = "SELECT DISTINCT (extract(epoch FROM time) * 1000000)::bigint * 1000 FROM scope.syscall"
PARTITIONS = "SELECT count(*) FROM pg_inherits WHERE inhparent = '{}'::regclass"


def _at(*ktimes: int) -> pa.RecordBatch:
    return rows(len(ktimes), ktime_ns=list(ktimes))


async def test_a_row_has_its_machines_time(line: Line) -> None:
    """A row's time is its ktime plus its batch's offset, in microseconds; ktime_ns has the nanoseconds."""
    await line.send(Run().batch(1, _at(FIRST_KTIME_NS + 1_234_567)))
    assert line.query(TIMES_NS) == [(BOOT_TO_UTC_NS + FIRST_KTIME_NS + 1_234_000,)]
    assert line.query("SELECT ktime_ns % 1000 FROM scope.syscall") == [(567,)]


async def test_a_plausible_clock_is_left_as_it_is(line: Line) -> None:
    """A clock that is behind by up to 29 days, or ahead by less than one, is accepted."""
    for sequence, days in enumerate((-29, -1, 0.9), 1):
        offset = BOOT_TO_UTC_NS + int(days * DAY_NS)
        (answer,) = await line.send(Run().batch(sequence, _at(FIRST_KTIME_NS), boot_to_utc_ns=offset))
        assert answer.verdict == STORED
        assert (offset + FIRST_KTIME_NS,) in line.query(TIMES_NS)
    assert line.backlog.counts.redated == 0


async def test_an_impossible_clock_is_replaced_by_the_servers(line: Line) -> None:
    """Rows with an impossible offset are stored with the server's offset for their machine, and counted as redated."""
    run = Run()
    offsets = [0, -(1 << 62), BOOT_TO_UTC_NS + 40 * DAY_NS, (1 << 62)]
    batches = [
        run.batch(n, _at(FIRST_KTIME_NS), boot_to_utc_ns=offset, emitted=n) for n, offset in enumerate(offsets, 1)
    ]
    assert [answer.verdict for answer in await line.send(run.start(), *batches)] == [STORED] * 5
    assert line.query(TIMES_NS) == [(line.machine.boot_to_utc_ns + FIRST_KTIME_NS,)]
    assert line.backlog.counts.redated == 4
    assert line.query("SELECT DISTINCT boot_to_utc_ns FROM store.batches") == [(line.machine.boot_to_utc_ns,)]


async def test_what_is_older_than_is_kept_is_refused(line: Line) -> None:
    """Rows that are too old by both clocks, or have impossible times, are refused and counted as lost."""
    run = Run()
    booted_long_ago = replace(line.machine, boot_to_utc_ns=BOOT_TO_UTC_NS - 60 * DAY_NS)
    old = run.batch(1, _at(FIRST_KTIME_NS), boot_to_utc_ns=booted_long_ago.boot_to_utc_ns)
    assert [answer.verdict for answer in await line.send(old, machine=booted_long_ago)] == [REFUSED]
    nonsense = [run.batch(2, _at(1 << 62)), run.batch(3, _at(1 << 63)), run.batch(4, _at(0, 1 << 61))]
    assert {answer.verdict for answer in await line.send(*nonsense)} == {REFUSED}
    assert line.losses() == {"ingest/too_old": 1, "ingest/bad_time": 4}


async def test_a_hostile_agent_makes_few_partitions(line: Line) -> None:
    """Whatever its clock, an agent creates partitions only of the days that are kept; a batch may span 8 days."""
    run = Run()
    since = BOOT_TO_UTC_NS - 100 * DAY_NS
    spread = [run.batch(n, _at(FIRST_KTIME_NS + n * DAY_NS), boot_to_utc_ns=since) for n in range(1, 200)]
    await line.send(*spread)
    (events,), (batches,) = (
        line.query(PARTITIONS.format("fresh.syscall")),
        line.query(PARTITIONS.format("store.batches")),
    )
    assert 25 <= events[0] <= 32
    assert batches[0] <= 32
    wide = _at(*[FIRST_KTIME_NS + day * DAY_NS for day in range(9)])
    narrow = _at(*[FIRST_KTIME_NS + day * DAY_NS for day in range(8)])
    answers = await line.send(
        run.batch(1000, wide, boot_to_utc_ns=BOOT_TO_UTC_NS - 20 * DAY_NS),
        run.batch(1001, narrow, boot_to_utc_ns=BOOT_TO_UTC_NS - 20 * DAY_NS),
    )
    assert [answer.verdict for answer in answers] == [REFUSED, STORED]


async def test_losses_of_an_impossible_clock_are_booked_now(line: Line) -> None:
    """A gap with impossible times is stored, at the server's time."""
    run = Run()
    before = time.time_ns()
    gap = run.gap((1, 1, 7), first_ktime_ns=1 << 63, last_ktime_ns=(1 << 64) - 1, boot_to_utc_ns=-(1 << 63))
    assert [answer.verdict for answer in await line.send(gap)] == [STORED]
    ((last,),) = line.query("SELECT extract(epoch FROM last_time)::float8 FROM scope.losses")
    assert last >= before / 1e9 - 1
