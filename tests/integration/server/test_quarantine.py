"""A record that cannot be stored blocks no others: it is quarantined, and the others are stored."""

from collections.abc import Callable, Collection, Sequence

import pytest
from tests.integration.server.records import LATER, REFUSED, STORED, Line, Run, account, lined, rows

from scope_catalogue.catalogue import streams
from scope_proto.scope.v1.record_pb2 import Record
from scope_server.errors import Rejected, UnknownThing
from scope_server.ingest.admit import Admission
from scope_server.store.schema.tables import Tables
from scope_server.store.writing.dimensions import Keys
from scope_server.store.writing.quarantine import Quarantine
from scope_server.store.writing.rows import StreamRows

# Raises for blocks that have a row with arg0 = 13.
TRIGGER = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF 13 = ANY(NEW.arg0) THEN RAISE EXCEPTION 'unlucky'; END IF; RETURN NEW; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON fresh.syscall FOR EACH ROW EXECUTE FUNCTION refuse()"""
ENTRIES = "SELECT stream, sequence, events, code, record IS NOT NULL FROM store.quarantine ORDER BY id"


def _group(run: Run, count: int = 9, size: int = 11) -> list[Record]:
    """Batches of one group; the second has the row with arg0 = 13."""
    return [run.batch(n + 1, rows(size, size * n), emitted=size * count) for n in range(count)]


def _quarantine(line: Line, committed: Callable[[Collection[str]], None] = lambda _: None) -> Quarantine:
    tables = Tables(streams().values())
    return Quarantine(line.conninfo, tables, Admission(tables, 30), committed)


async def test_a_trigger_that_raises_harms_one_batch(line: Line) -> None:
    """A batch that PostgreSQL refuses is quarantined and counted as lost; the rest of its group is stored."""
    line.query(TRIGGER)
    run = Run()
    answers = await line.send(run.start(), *_group(run), run.end({"syscall": 9}))
    assert [answer.verdict for answer in answers] == [STORED, STORED, REFUSED, *[STORED] * 8]
    assert "unlucky" in answers[2].reason
    assert line.books() == [(99, 88, 11, 0, True)]
    assert line.losses() == {"ingest/refused": 11}
    assert line.query(ENTRIES) == [("syscall", 2, 11, "refused", True)]
    assert await line.writers.check(3) == ""


async def test_a_fault_of_the_servers_own_harms_one_batch(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that raises an unexpected error, such as KeyError, is quarantined and does not block other records."""

    def faulty(self: StreamRows, batches: Sequence[int | None], keys: Keys) -> object:
        if 13 in self._rows.column("arg0").to_pylist():
            raise KeyError("arg0")
        return sound(self, batches, keys)

    sound: Callable[..., object] = StreamRows.stored
    monkeypatch.setattr(StreamRows, "stored", faulty)
    run = Run()
    answers = await line.send(*_group(run))
    assert [answer.verdict for answer in answers] == [STORED, REFUSED, *[STORED] * 7]
    assert line.books() == [(99, 88, 11, 0, False)]
    assert line.losses() == {"ingest/failed": 11}
    assert line.query("SELECT reason FROM store.quarantine") == [("the server failed: KeyError: 'arg0'",)]


async def test_a_kept_record_is_stored_after_all(line: Line) -> None:
    """A retry stores the rows, subtracts them from the losses and tells live views; one that fails changes nothing."""
    line.query(TRIGGER)
    run, told = Run(), list[Collection[str]]()
    await line.send(run.start(), *_group(run), run.end({"syscall": 9}))
    quarantine = _quarantine(line, told.append)
    (entry,) = quarantine.entries()
    assert (entry.run_id, entry.sequence, entry.code, entry.kept) == (str(run.run_id), 2, "refused", True)
    with pytest.raises(Rejected, match="unlucky"):
        quarantine.retry(entry.id)
    assert line.books() == [(99, 88, 11, 0, True)]
    assert quarantine.entries() == [entry]
    assert told == []
    line.query("DROP TRIGGER refuse ON fresh.syscall")
    quarantine.retry(entry.id)
    assert line.books() == [(99, 99, 0, 0, True)]
    assert line.losses() == {}
    assert line.query("SELECT count(*), count(DISTINCT arg0) FROM scope.syscall") == [(99, 99)]
    assert quarantine.entries() == []
    with pytest.raises(UnknownThing):
        quarantine.retry(entry.id)
    assert told == [["syscall"]]


async def test_a_dropped_entry_stays_lost(line: Line) -> None:
    """Dropping an entry deletes it, but not its counted loss."""
    line.query(TRIGGER)
    run = Run()
    await line.send(*_group(run))
    quarantine = _quarantine(line)
    (entry,) = quarantine.entries()
    quarantine.drop(entry.id)
    assert quarantine.entries() == []
    assert line.losses() == {"ingest/refused": 11}
    with pytest.raises(UnknownThing):
        quarantine.drop(entry.id)


async def test_what_is_kept_is_bounded(database: str) -> None:
    """Beyond the size limit, a record is counted as lost without its bytes, and cannot be retried."""
    run = Run()
    bad = [run.batch(n + 1, rows(11), schema_fingerprint="?") for n in range(5)]
    size = bad[0].ByteSize()
    async with lined(database, kept_bytes=2 * size + 100) as line:
        assert {answer.verdict for answer in await line.send(*bad)} == {REFUSED}
        assert [kept for *_, kept in line.query(ENTRIES)] == [True, True, False, False, False]
        assert line.losses() == {"ingest/corrupt": 55}
        with pytest.raises(UnknownThing, match="not kept"):
            _quarantine(line).retry(3)


async def test_a_record_without_rows_is_kept_too(line: Line) -> None:
    """A refused record without rows, such as an account, is quarantined too, and can be retried."""
    run = Run()
    line.query("ALTER TABLE store.losses ADD CONSTRAINT none CHECK (reason <> 'unlucky')")
    (answer,) = await line.send(run.accounts(syscall=account(13, {("ring", "unlucky"): 13})))
    assert (answer.verdict, "violates check constraint" in answer.reason) == (REFUSED, True)
    assert line.query(ENTRIES) == [(None, None, 0, "refused", True)]
    line.query("ALTER TABLE store.losses DROP CONSTRAINT none")
    _quarantine(line).retry(1)
    assert line.books() == [(13, 0, 13, 0, False)]


async def test_what_cannot_even_be_kept_is_asked_for_later(line: Line) -> None:
    """A record that the server can neither store nor quarantine is answered with LATER; other records are stored."""
    line.query(TRIGGER)
    line.query("ALTER TABLE store.quarantine ADD CONSTRAINT nothing CHECK (false)")
    run = Run()
    group = _group(run)
    answers = await line.send(*group)
    assert [answer.verdict for answer in answers] == [STORED, LATER, *[STORED] * 7]
    assert line.books() == [(99, 88, 0, 11, False)]
    line.query("DROP TRIGGER refuse ON fresh.syscall")
    assert [answer.verdict for answer in await line.send(group[1])] == [STORED]
    assert line.books() == [(99, 99, 0, 0, False)]


async def test_tables_that_are_out_of_order_are_not_the_records_fault(line: Line) -> None:
    """If a column was renamed, records are answered with LATER; once it is renamed back, they are stored."""
    run = Run()
    group = _group(run)
    await line.send(run.batch(100, rows(3), emitted=99))
    line.query("ALTER TABLE fresh.syscall RENAME COLUMN arg0 TO argument")
    assert {answer.verdict for answer in await line.send(*group)} == {LATER}
    assert line.query(ENTRIES) == []
    line.query("ALTER TABLE fresh.syscall RENAME COLUMN argument TO arg0")
    assert {answer.verdict for answer in await line.send(*group)} == {STORED}
    assert line.losses() == {}


async def test_a_partition_that_was_dropped_is_made_again(line: Line) -> None:
    """Rows are stored, not refused, if the partition of their day was dropped."""
    run = Run()
    await line.send(run.batch(1, rows(101)))
    parents = "('fresh.syscall'::regclass, 'store.batches'::regclass)"
    partitions = f"SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent IN {parents}"
    for (partition,) in line.query(partitions):
        line.query(f"DROP TABLE {partition}")
    answers = await line.send(run.batch(2, rows(103, 101)), run.batch(3, rows(107, 204)))
    assert [answer.verdict for answer in answers] == [STORED] * 2
    assert line.query("SELECT count(*) FROM scope.syscall") == [(210,)]
    assert line.query(ENTRIES) == []
