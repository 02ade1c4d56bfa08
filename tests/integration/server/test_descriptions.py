"""A server learns streams and columns that it does not know from agents' descriptions."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from tests.integration.server.records import REFUSED, STORED, Line, Run, description, envelope, lined, rows, stacks
from tests.integration.server.running import Server, until
from tests.integration.server.tables import described_with

from scope_catalogue.catalogue import streams
from scope_catalogue.description import read, written
from scope_catalogue.encoding import to_json
from scope_catalogue.errors import InvalidDescription
from scope_catalogue.shown import Latest
from scope_server.errors import Rejected
from scope_server.ingest.admit import Admission
from scope_server.ingest.descriptions import KEPT_BYTES
from scope_server.store.layout.blocks.blocks import BLOCKS
from scope_server.store.retention.days import measure
from scope_server.store.schema import learning
from scope_server.store.schema.tables import Tables
from scope_server.store.writing.quarantine import Quarantine

_CATALOGUE = """
SELECT nspname || '.' || relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE nspname !~ '^pg_' AND relname !~ '[0-9]{8}'
UNION ALL SELECT nspname || '.' || proname || '()' FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
WHERE nspname !~ '^pg_' ORDER BY 1"""
StartServer = Callable[..., AbstractAsyncContextManager[Server]]

COLUMN = described_with("invented", pa.int64(), "what nobody knew")
FUTURE = replace(streams()["syscall"], name="from_the_future", probe="oracle")


def _with_column(count: int, first: int = 0) -> pa.RecordBatch:
    return rows(count, first).append_column("invented", pa.array([1] * count, pa.int64()))


async def test_a_newer_agents_rows_are_stored_at_once(line: Line) -> None:
    """Rows with an unknown stream or column are stored, once the agent has described them."""
    run = Run()
    answers = await line.upload(
        [
            envelope(run.batch(1, rows(101), emitted=101), 1),
            description(COLUMN),
            envelope(run.batch(2, _with_column(13, 101), emitted=114), 2),
            description(FUTURE),
            envelope(run.batch(1, rows(11), emitted=11, stream=FUTURE.name), 3),
        ]
    )
    assert [(answer.verdict, answer.reason) for answer in answers] == [(STORED, "")] * 3
    assert line.query("SELECT count(*), sum(invented)::bigint FROM scope.syscall") == [(114, 13)]
    assert line.query("SELECT count(*), count(duration_ns) FROM scope.from_the_future") == [(11, 11)]
    assert line.books() == [(114, 114, 0, 0, False)]
    assert line.books("from_the_future") == [(11, 11, 0, 0, False)]


async def test_what_was_learnt_is_kept(line: Line, database: str) -> None:
    """After a restart, the server knows what it has learnt, and needs no other description to store such rows."""
    run = Run()
    await line.upload([description(COLUMN), envelope(run.batch(1, _with_column(13)), 1)])
    await line.upload([description(FUTURE), envelope(Run().batch(1, rows(11), stream=FUTURE.name), 1)])
    async with lined(database) as restarted:
        assert set(restarted.tables) - set(streams()) == {FUTURE.name}
        answers = await restarted.send(run.batch(2, _with_column(17, 13)), Run().batch(1, rows(19), stream=FUTURE.name))
        assert [answer.verdict for answer in answers] == [STORED, STORED]
    assert line.query("SELECT count(invented) FROM scope.syscall") == [(30,)]
    assert line.query("SELECT count(*) FROM scope.from_the_future") == [(30,)]
    assert line.query("SELECT stream FROM store.descriptions ORDER BY id") == [("syscall",), (FUTURE.name,)]


async def test_agents_of_two_versions_at_once(line: Line) -> None:
    """Rows of an older and of a newer agent that are written together: what the older one does not know is absent."""
    old, new = Run(), Run()
    requests = [description(COLUMN)]
    for number in range(1, 8):
        requests.append(envelope(old.batch(number, rows(101, 101 * number)), 2 * number))
        requests.append(envelope(new.batch(number, _with_column(103, 103 * number)), 2 * number + 1))
    assert {answer.verdict for answer in await line.upload(requests)} == {STORED}
    assert line.query("SELECT count(*), count(invented) FROM scope.syscall") == [(7 * 204, 7 * 103)]


async def test_an_upgraded_server_takes_over_what_it_had_learnt(line: Line, database: str) -> None:
    """A server whose catalogue has the stream or column that an older one has learnt goes on with the same table."""
    run = Run()
    await line.upload([description(COLUMN), envelope(run.batch(1, _with_column(13)), 1)])
    await line.upload([description(FUTURE), envelope(Run().batch(1, rows(11), stream=FUTURE.name), 1)])
    upgraded = Tables({**streams(), "syscall": COLUMN, FUTURE.name: FUTURE}.values())
    async with lined(database, tables=upgraded) as newer:
        await newer.send(run.batch(2, _with_column(17, 13)), Run().batch(1, rows(19), stream=FUTURE.name))
    assert line.query("SELECT count(invented) FROM scope.syscall") == [(30,)]
    assert line.query("SELECT count(*) FROM scope.from_the_future") == [(30,)]


async def test_the_catalogue_is_right(line: Line, database: str) -> None:
    """If an upgraded server's catalogue has a column with another type, the one that an agent described is renamed."""
    await line.upload([description(COLUMN), envelope(Run().batch(1, _with_column(13)), 1)])
    text = described_with("invented", pa.string(), "what the catalogue says")
    said = rows(17).append_column("invented", pa.array(["x"] * 17))
    for _ in range(2):
        async with lined(database, tables=Tables({**streams(), "syscall": text}.values())) as upgraded:
            assert [answer.verdict for answer in await upgraded.send(Run().batch(1, said))] == [STORED]
    found = line.query("SELECT count(*), count(invented), sum(invented_2)::bigint FROM scope.syscall")
    assert found == [(47, 34, 13)]


async def test_other_servers_learn_it_too(
    line: Line, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of the same database answers questions about a stream that another one has learnt."""
    monkeypatch.setattr("scope_server.store.reading.learnt.EVERY_S", 0.1)
    async with start_server() as other:
        assert (await other.ask("GET", f"events/{FUTURE.name}"))[0] == 404
        await line.upload([description(FUTURE), envelope(Run().batch(1, rows(11), stream=FUTURE.name), 1)])
        _, answer = await until(lambda: other.ask("GET", f"events/{FUTURE.name}"), lambda found: found[0] == 200)
        assert len(answer["events"]) == 11


async def test_rows_of_a_learnt_stream_are_like_all_others(line: Line) -> None:
    """Totals, latest states and retention of a learnt stream work as its description says."""
    held = replace(streams()["cuda_live"], name="held", probe="oracle")
    columns = stacks(["main;f", "main;g", None])
    await line.upload([description(held), envelope(Run().batch(1, columns, stream="held"), 1)])
    assert line.query("SELECT sum(count)::bigint FROM scope.held_minutes('-infinity')") == [(3,)]
    assert line.query("SELECT count(*), max(stack) FROM scope.held") == [(3, "main;g")]
    assert line.query("SELECT count(*) FROM latest.held") == [(3,)]
    with psycopg.connect(line.conninfo, autocommit=True) as connection:
        days = measure(connection, BLOCKS)
        (day,) = {one.day for one in days.rows if (one.schema, one.table) == ("fresh", "held")}
    assert {one.schema for one in days.of(day) if one.table == "held"} == {"fresh", "rollups"}


def _hostile(**changed: Any) -> bytes:
    return json.dumps(to_json(FUTURE) | changed).encode()


def _columns(*changed: dict[str, Any]) -> list[dict[str, Any]]:
    return [*to_json(FUTURE)["columns"], *changed]


_TEXT = {"meaning": "", "name": "odd", "type": "string"}
_NAMES = "dictionary<values=string, indices=int32, ordered=0>"
_INVALID = [
    b"",
    b"[]",
    b"\xff",
    b"{" * 100_000,
    b"[" * 100_000,
    b"1" * 100_000,
    _hostile(name='machines"; DROP SCHEMA store CASCADE; --'),
    _hostile(name="a" * 55),
    _hostile(name="syscall_minutes"),
    _hostile(name="syscall_20260131"),
    _hostile(name="Syscall"),
    _hostile(probe="o'; --"),
    _hostile(meaning="\0"),
    _hostile(meaning="\x1b[2J"),
    _hostile(meaning="x" * 1001),
    _hostile(meaning="x" * 200_000),
    _hostile(columns=[]),
    _hostile(columns=_columns({**_TEXT, "name": 'odd" integer); DROP TABLE store.names; --'})),
    _hostile(columns=_columns({**_TEXT, "name": "o" * 56})),
    _hostile(columns=_columns(_TEXT, _TEXT)),
    _hostile(columns=_columns(*({**_TEXT, "name": f"odd{number}"} for number in range(240)))),
    _hostile(columns=[one for one in _columns() if one["name"] != "ktime_ns"]),
    _hostile(columns=[one for one in _columns() if one["name"] != "start_ns"]),
    _hostile(columns=[one | {"type": "string"} if one["name"] == "pid" else one for one in _columns()]),
]


@pytest.mark.parametrize("data", _INVALID, ids=range(len(_INVALID)))
async def test_a_description_that_is_not_valid_changes_nothing(line: Line, data: bytes) -> None:
    """Rows whose description is not valid are refused, counted and quarantined; other rows are stored."""
    before = line.query(_CATALOGUE)
    run = Run()
    answers = await line.upload(
        [
            description(FUTURE, description=data),
            envelope(run.batch(1, rows(11), emitted=11, stream=FUTURE.name), 1),
            envelope(run.batch(1, rows(13), emitted=13), 2),
        ]
    )
    assert [answer.verdict for answer in answers] == [REFUSED, STORED]
    assert answers[0].reason == "stream 'from_the_future' is unknown and not described"
    assert line.books(FUTURE.name) == [(11, 0, 11, 0, False)]
    assert line.losses() == {"ingest/undescribed": 11}
    assert line.query("SELECT code, record IS NOT NULL FROM store.quarantine") == [("undescribed", True)]
    assert line.query(_CATALOGUE) == before


async def test_rows_without_a_description_wait_in_the_quarantine(line: Line) -> None:
    """Rows that came without a description are kept, and stored by a retry once the stream is known."""
    answers = await line.send(Run().batch(1, rows(11), emitted=11, stream=FUTURE.name))
    assert [answer.verdict for answer in answers] == [REFUSED]
    quarantine = Quarantine(line.conninfo, line.tables, Admission(line.tables, 30))
    (entry,) = await asyncio.to_thread(quarantine.entries)
    with pytest.raises(Rejected, match="is unknown and not described"):
        await asyncio.to_thread(quarantine.retry, entry.id)
    await line.upload([description(FUTURE), envelope(Run().batch(1, rows(13), emitted=13, stream=FUTURE.name), 1)])
    await asyncio.to_thread(quarantine.retry, entry.id)
    assert line.query("SELECT count(*) FROM scope.from_the_future") == [(24,)]
    assert {book[:4] for book in line.books(FUTURE.name)} == {(11, 11, 0, 0), (13, 13, 0, 0)}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "machines"}, "the database has something of this name"),
        ({"name": "percentile"}, "the database has something of this name"),
        ({"columns": _columns({**_TEXT, "name": "time"})}, "the name of column 'time' is used for every stream"),
        ({"columns": _columns({**_TEXT, "type": "map<string, string>"})}, "cannot be stored"),
        ({"columns": _columns({**_TEXT, "type": "list<item: list<item: string>>"})}, "cannot be stored"),
        ({"rollup": {"by": ["nonsense"]}}, "its rollup needs 'nonsense'"),
        ({"rollup": {"by": ["comm", "comm"]}}, "its rollup needs 'comm'"),
        ({"rollup": {"by": [], "measured": "comm"}}, "its rollup needs 'comm'"),
        ({"rollup": {"by": [], "where": "nonsense = 0"}}, "its rollup needs a filter that is not valid"),
        ({"rollup": {"by": [], "where": "comm = a"}}, "its rollup's filter compares 'comm', which is no number"),
        ({"failed": "comm is null"}, "its rollup's filter compares 'comm', which is no number"),
        ({"latest": {"key": ["tid"], "by": [], "totals": ["comm"]}}, "its latest states need 'comm'"),
        (
            {"columns": _columns({**_TEXT, "name": "minute", "type": _NAMES}), "rollup": {"by": ["minute"]}},
            "no table can be made",
        ),
    ],
)
async def test_what_no_table_can_be_made_for(line: Line, changed: dict[str, Any], said: str) -> None:
    """Rows of a stream that cannot have a table are refused with the reason; nothing of the database changes."""
    before = line.query(_CATALOGUE)
    stream = read(json.dumps(to_json(FUTURE) | changed).encode())
    run, wrong = Run(), rows(11)
    for column in stream.columns[len(FUTURE.columns) :]:
        wrong = wrong.append_column(column.name, pa.array(["x"] * 11))
    record = run.batch(1, wrong, emitted=11, stream=stream.name, schema_fingerprint=stream.fingerprint)
    answers = await line.upload([description(stream), envelope(record, 1), envelope(run.batch(1, rows(13)), 2)])
    assert [answer.verdict for answer in answers] == [REFUSED, STORED]
    assert said in answers[0].reason
    assert line.losses() == {"ingest/other_schema": 11}
    assert line.query(_CATALOGUE) == before


async def test_a_column_keeps_its_type(line: Line) -> None:
    """An agent cannot change a column that is known: rows with another type are refused, those of others are stored."""
    text = described_with("invented", pa.string())
    wrong = rows(7).append_column("invented", pa.array(["x"] * 7))
    other = tuple(replace(one, type="string") if one.name == "comm" else one for one in COLUMN.columns)
    comm, run = replace(COLUMN, columns=other), Run()
    answers = await line.upload(
        [
            description(COLUMN),
            envelope(run.batch(1, _with_column(13)), 1),
            description(text),
            envelope(run.batch(2, wrong), 2),
            description(comm),
            envelope(run.batch(3, rows(7), schema_fingerprint=comm.fingerprint), 3),
            envelope(run.batch(4, _with_column(17, 13)), 4),
        ]
    )
    assert [answer.verdict for answer in answers] == [STORED, REFUSED, REFUSED, STORED]
    assert answers[1].reason == "column 'invented' of syscall is int64, here it is string"
    assert line.query("SELECT sum(invented)::bigint FROM scope.syscall") == [(30,)]


async def test_meanings_may_be_any_text(line: Line) -> None:
    """A meaning that SQL, Python's formats or HTML would take for their own is kept as it is."""
    meaning = """%s %(a)s {} {0} '; DROP SCHEMA store CASCADE; -- $$ $1 \\ "x" <b>"""
    columns = tuple(replace(one, meaning=meaning) for one in FUTURE.columns)
    stream = replace(FUTURE, meaning=meaning, columns=columns, latest=Latest(("tid",), ("cpu",), ("nr",)))
    answers = await line.upload([description(stream), envelope(Run().batch(1, rows(11), stream=stream.name), 1)])
    assert [(answer.verdict, answer.reason) for answer in answers] == [(STORED, "")]
    about = "SELECT col_description('scope.from_the_future'::regclass, attnum) FROM pg_attribute WHERE attname = 'nr'"
    assert (meaning,) in line.query(about)
    assert line.query("SELECT count(*) FROM scope.from_the_future_now()") == [(3,)]


async def test_a_machine_cannot_make_tables_without_end(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of streams, and of columns in one of them, descriptions are refused; known streams go on."""
    monkeypatch.setattr(learning, "MOST_STREAMS", len(line.tables) + 1)
    requests = []
    for number in range(3):
        name = f"future_{number}"
        requests += [description(replace(FUTURE, name=name)), envelope(Run().batch(1, rows(3), stream=name), number)]
    answers = await line.upload(requests)
    assert sorted(answer.verdict for answer in answers) == [STORED, REFUSED, REFUSED]
    monkeypatch.setattr(learning, "MOST_COLUMNS", len(line.tables["syscall"].schema) + 1)
    run, requests = Run(), []
    for number in range(1, 4):
        named = rows(3).append_column(f"invented_{number}", pa.array([1] * 3, pa.int64()))
        described = described_with(f"invented_{number}", pa.int64())
        requests += [description(described), envelope(run.batch(number, named), number)]
    answers = await line.upload([*requests, envelope(run.batch(4, rows(5)), 4)])
    assert [answer.verdict for answer in answers] == [STORED, REFUSED, REFUSED, STORED]
    most = KEPT_BYTES // len(written(replace(FUTURE, name="other_0"))) + 1
    kept = [description(replace(FUTURE, name=f"other_{number}")) for number in range(most)]
    late = envelope(Run().batch(1, rows(3), stream=f"other_{most - 1}"), 1)
    assert (await line.upload([*kept, late]))[0].reason == f"stream 'other_{most - 1}' is unknown and not described"


async def test_a_locked_table_is_no_reason_to_refuse(line: Line) -> None:
    """While others lock a table, its new column waits, and with it the rows; nothing is refused."""
    with psycopg.connect(line.conninfo) as reader:
        reader.execute("LOCK TABLE fresh.syscall IN ACCESS SHARE MODE")
        requests = [description(COLUMN), envelope(Run().batch(1, _with_column(13)), 1)]
        sending = asyncio.create_task(line.upload(requests))
        await until(lambda: line.writers.check(1), lambda found: "lock timeout" in found)
        assert not sending.done()
        reader.rollback()
        assert [answer.verdict for answer in await sending] == [STORED]


async def test_no_stream_has_the_name_of_a_function_of_another(line: Line) -> None:
    """Such as scope.syscall_totals."""
    made = {name for (name,) in line.query("SELECT proname FROM pg_proc WHERE pronamespace = 'scope'::regnamespace")}
    derived = {name for name in made if name.startswith(("profile_", "syscall_", "cuda_live_"))} - streams().keys()
    assert {"profile_flames", "syscall_steps", "cuda_live_now"} <= derived
    for name in derived:
        with pytest.raises(InvalidDescription, match="a stream cannot be named"):
            read(written(replace(FUTURE, name=name)))
