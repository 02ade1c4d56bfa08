"""The database's schema: made from the catalogue, documented by comments, and robust against users' changes."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pyarrow as pa
import pytest
from tests.integration.server.records import STORED, Line, Run, lined, rows, stacks
from tests.integration.server.tables import TABLES, migrated, with_column

from scope_server.errors import SchemaConflict
from scope_server.store.schema.migrate import migrate

COMMENTS = """
SELECT c.relname, a.attname, col_description(c.oid, a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('v', 'p')"""
# Without partitions, which have no comments of their own.
UNEXPLAINED = """
SELECT c.oid::regclass::text, a.attname
FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
  AND (coalesce(obj_description(c.oid, 'pg_class'), '') = '' OR coalesce(col_description(c.oid, a.attnum), '') = '')"""


async def test_every_stream_is_explained(line: Line) -> None:
    """Each view, table and function of a stream, and each column, has a comment; a column's has the unit."""
    streams = set(TABLES)
    for schema in ("scope", "fresh", "packed"):
        said = {(name, column): text for name, column, text in line.query(COMMENTS, schema)}
        assert {name for name, _ in said} >= streams
        assert [where for where, text in said.items() if where[0] in streams and not text] == []
    assert "(ns)" in said["syscall", "duration_ns"]
    functions = "SELECT proname, obj_description(oid) FROM pg_proc WHERE pronamespace = 'scope'::regnamespace"
    told = dict(line.query(functions))
    assert [stream for stream in streams if not told.get(stream)] == []
    (about,) = line.query("SELECT obj_description('scope.syscall'::regclass)")
    assert "probe syscalls" in about[0]


@pytest.mark.parametrize("schema", ["scope", "fresh", "packed", "rollups", "latest", "ranked", "store"])
def test_whatever_there_is_says_what_it_means(database: str, schema: str) -> None:
    """Each table and view, and each of their columns, has a comment, also those of no stream."""
    migrated(database)
    with psycopg.connect(database) as connection:
        here = "SELECT count(*) > 0 FROM pg_class WHERE relnamespace = %s::regnamespace"
        assert connection.execute(here, [schema]).fetchone() == (True,)
        assert connection.execute(UNEXPLAINED, [schema]).fetchall() == []


async def test_only_what_people_read_is_in_scope(line: Line) -> None:
    """The schema `scope`, which people query, has views and no tables."""
    assert (
        line.query("SELECT relname FROM pg_class WHERE relnamespace = 'scope'::regnamespace AND relkind <> 'v'") == []
    )


async def test_views_do_not_join_what_is_not_asked_for(line: Line) -> None:
    """Queries that do not name task_id or stack read neither the catalogue of batches nor stacks."""
    await line.send(Run().batch(1, stacks(["a;b", None]), stream="cuda_live"))
    plan = (
        "EXPLAIN SELECT time, pid, live_bytes, comm, hostname FROM scope.cuda_live WHERE time > now() - interval '1 h'"
    )
    said = "\n".join(text for (text,) in line.query(plan))
    assert "batches" not in said
    assert "stack" not in said
    assert "SubPlan" in "\n".join(text for (text,) in line.query("EXPLAIN SELECT task_id FROM scope.cuda_live"))


def test_a_restart_changes_nothing(database: str) -> None:
    """A repeated migration changes nothing, and does not wait for a long reader of a view."""
    migrated(database)
    dump = "SELECT relname, pg_get_viewdef(oid) FROM pg_class WHERE relnamespace = 'scope'::regnamespace"
    with psycopg.connect(database) as reader:
        before = reader.execute(dump).fetchall()
        reader.execute("SELECT * FROM scope.syscall").fetchall()
        with psycopg.connect(database, options="-c lock_timeout=5s", autocommit=True) as connection:
            migrate(connection, TABLES)
        assert reader.execute(dump).fetchall() == before
        assert reader.execute("SELECT count(*) FROM store.streams WHERE version > 1").fetchone() == (0,)


@pytest.mark.parametrize(
    "damage",
    [
        "DROP VIEW scope.syscall CASCADE",
        "DROP VIEW scope.syscall CASCADE; CREATE VIEW scope.syscall AS SELECT 1 AS one",
        "DROP VIEW scope.syscall CASCADE; CREATE VIEW scope.syscall AS SELECT 1 a; "
        "CREATE VIEW mine AS TABLE scope.syscall",
        "DROP VIEW scope.syscall CASCADE; CREATE TABLE scope.syscall (one integer)",
        "ALTER VIEW scope.syscall RENAME COLUMN pid TO process_id",
        "DROP VIEW scope.syscall CASCADE; DROP TABLE fresh.syscall",
    ],
)
async def test_what_people_did_to_a_view_stops_no_server(database: str, damage: str) -> None:
    """A damaged view is repaired, unless a table has its name or another view depends on it; rows are always stored."""
    migrated(database)
    with psycopg.connect(database) as connection:
        connection.execute(damage.encode())
    async with lined(database, tables=with_column("added", pa.int64())) as line:
        assert [answer.verdict for answer in await line.send(Run().batch(1, rows(101)))] == [STORED]
        assert line.query("SELECT sum(row_count)::bigint FROM fresh.syscall") == [(101,)]
        if "CREATE TABLE" not in damage and "mine" not in damage:
            assert line.query("SELECT count(pid), count(added) FROM scope.syscall") == [(101, 0)]


async def test_a_view_built_on_a_streams_is_kept(database: str) -> None:
    """A migration that adds a column keeps the views that depend on a stream's view."""
    async with lined(database) as line:
        await line.send(Run().batch(1, rows(101)))
        line.query("CREATE VIEW mine AS SELECT pid, arg0 FROM scope.syscall")
    migrated(database, with_column("added", pa.int64(), "something (ns)"))
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM mine").fetchone() == (101,)
        assert connection.execute("SELECT count(added), count(*) FROM scope.syscall").fetchone() == (0, 101)


def test_a_reader_and_a_new_column_wait_for_each_other(database: str) -> None:
    """A column that is added while people read takes no lock that a reader needs who holds another one it needs."""
    migrated(database)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

    def read() -> None:
        with psycopg.connect(database) as reader:
            assert reader.execute("SELECT count(*) FROM scope.syscall").fetchone() == (0,)

    with ThreadPoolExecutor() as pool, psycopg.connect(database) as first, psycopg.connect(database) as watch:
        watch.autocommit = True
        first.execute("LOCK TABLE fresh.syscall IN ACCESS EXCLUSIVE MODE")
        others = []
        for other in (lambda: migrated(database, with_column("added", pa.int64())), read):
            others.append(pool.submit(other))
            while watch.execute(waiting).fetchone() != (len(others),):
                assert not others[-1].done()
        first.commit()
        for each in others:
            each.result()


async def test_an_older_server_goes_on_with_a_newer_catalogue(database: str, caplog: pytest.LogCaptureFixture) -> None:
    """An older and a newer server can use a database in turns; the older one leaves new columns empty, and logs it."""
    newer = with_column("added", pa.int64())
    for tables in (newer, None, newer, None):
        async with lined(database, tables=tables) as line:
            assert [answer.verdict for answer in await line.send(Run().batch(1, rows(7)))] == [STORED]
    assert line.query("SELECT count(*), count(added) FROM scope.syscall") == [(28, 0)]
    assert line.query("SELECT count(*) FROM store.streams WHERE stream = 'syscall'") == [(2,)]
    assert "is it older?" in caplog.text


def test_a_database_of_a_newer_server_is_refused(database: str) -> None:
    """A database of a newer server is refused; the error names the version and says what to do."""
    migrated(database)
    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO store.schema_versions (version) VALUES (9999)")
    with pytest.raises(SchemaConflict, match=r"at schema version 9999, this server knows \d+; run the newer server"):
        migrated(database)


def test_a_database_that_cannot_be_taken_over_is_left_alone(empty_database: str) -> None:
    """A database of the first servers, with tables in another schema, is refused and left unchanged."""
    with psycopg.connect(empty_database) as connection:
        connection.execute("CREATE SCHEMA scope; CREATE TABLE scope.schema_versions (version integer)")
    with pytest.raises(SchemaConflict, match="use another database"):
        migrated(empty_database)
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("SELECT to_regnamespace('store')").fetchone() == (None,)


def test_a_column_that_changed_its_type_is_a_conflict(database: str) -> None:
    """A migration fails if a stored column has another type; the error names the column."""
    migrated(database, with_column("added", pa.int64()))
    with pytest.raises(SchemaConflict, match="column 'added' is int64"):
        migrated(database, with_column("added", pa.string()))
