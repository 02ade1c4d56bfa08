"""The role for Grafana reads what people query, and nothing else: no accounts, no secrets, no change."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.integration.server.every_stream import tell_every_stream
from tests.integration.server.records import Line
from tests.integration.server.tables import TABLES, migrated

from scope_cli.main import main
from scope_server.store.schema.reader_role import LIMITS, REFERRED, ROWS
from scope_server.store.upkeep import readers
from scope_server.store.upkeep.readers import Readers

ROLE = f"scope_grafana_{os.getpid()}"  # roles belong to the whole PostgreSQL
FORBIDDEN = (
    "CREATE TABLE scope.mine (a integer)",
    "CREATE TABLE public.mine (a integer)",
    "CREATE TEMPORARY TABLE mine (a integer)",
    "UPDATE store.machines SET hostname = ''",
    "DELETE FROM fresh.syscall",
    "INSERT INTO store.names (digest, text) VALUES ('', '')",
    "SELECT nextval('store.text_ids')",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "SELECT pg_read_file('/etc/hostname')",
    "ALTER ROLE CURRENT_USER SUPERUSER",
    "COMMENT ON ROLE {} IS NULL",
)


def make_role(conninfo: str, folder: Path, name: str = ROLE) -> str:
    """Makes the role with the command; returns its connection string."""
    password = folder / "password"
    password.write_text("of the role\n")
    command = ["admin", "grafana-role", "--database", conninfo, "--name", name, "--password-file", str(password)]
    assert main(command) == 0
    return psycopg.conninfo.make_conninfo(conninfo, user=name, password="of the role")


def test_it_reads_everything_people_query(database: str, tmp_path: Path) -> None:
    """Each view and each function of the schema scope answers it, also those that are made later."""
    conninfo = make_role(database, tmp_path)
    with psycopg.connect(database, autocommit=True) as owner:
        views = [name for (name,) in owner.execute("SELECT viewname FROM pg_views WHERE schemaname = 'scope'")]
        functions = owner.execute(
            "SELECT proname, pronargs - pronargdefaults FROM pg_proc"
            " WHERE pronamespace = 'scope'::regnamespace AND prokind = 'f'"
        ).fetchall()
        owner.execute("CREATE VIEW scope.later AS SELECT * FROM fresh.syscall")
    assert len(views) > len(TABLES)
    with psycopg.connect(conninfo, autocommit=True) as reader:
        for view in (*views, "later"):
            reader.execute(sql.SQL("SELECT * FROM {} LIMIT 1").format(sql.Identifier("scope", view)))
        for name, needed in functions:
            asked = sql.SQL("SELECT * FROM {} ({}) LIMIT 1").format(
                sql.Identifier("scope", name), sql.SQL(", ").join([sql.SQL("'2026-01-01'")] * needed)
            )
            reader.execute(asked)


def test_its_limits_hold(database: str, tmp_path: Path) -> None:
    """Its connections begin with the limits; a slow statement ends; making it again changes nothing."""
    conninfo = make_role(database, tmp_path)
    assert make_role(database, tmp_path) == conninfo
    with psycopg.connect(conninfo, autocommit=True) as reader:
        for setting, value in LIMITS.items():
            assert reader.execute(f"SHOW {setting}".encode()).fetchone() == (value,)
        reader.execute("SET statement_timeout = '50ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            reader.execute("SELECT pg_sleep(10)")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions of readers may last half a second."""
    monkeypatch.setattr(readers, "LONGEST_S", 0.5)


@pytest.mark.usefixtures("short")
async def test_a_running_server_ends_what_lasts_too_long(
    database: str, tmp_path: Path, start_server: Callable[..., Any]
) -> None:
    """Also where the role has lifted its limits, for a connection or for good; others are left alone."""
    conninfo = make_role(database, tmp_path)
    with psycopg.connect(conninfo, autocommit=True) as reader:
        reader.execute("SET default_transaction_read_only = off")
        reader.execute("ALTER ROLE CURRENT_USER SET statement_timeout = 0")
    async with start_server():
        owner = await psycopg.AsyncConnection.connect(database)
        reader_ = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
        async with owner, reader_:
            await owner.execute("SELECT 1")
            with pytest.raises(psycopg.errors.AdminShutdown):
                await reader_.execute("SELECT pg_sleep(600)")
            assert (await (await owner.execute("SELECT 2")).fetchone()) == (2,)


@pytest.mark.usefixtures("short")
def test_an_owner_who_is_no_superuser_may_end_it(empty_database: str, tmp_path: Path) -> None:
    """The tables' owner becomes a member of the role; an idle transaction ends, too, and a short one does not."""
    owner = f"owner_{os.getpid()}"
    name = psycopg.conninfo.conninfo_to_dict(empty_database)["dbname"]
    with psycopg.connect(empty_database, autocommit=True) as superuser:
        superuser.execute(f"CREATE ROLE {owner} LOGIN CREATEROLE".encode())
        superuser.execute(f"ALTER DATABASE {name} OWNER TO {owner}".encode())
    of_owner = psycopg.conninfo.make_conninfo(empty_database, user=owner)
    migrated(of_owner)
    conninfo = make_role(of_owner, tmp_path, f"{ROLE}_of_{owner}")
    with (
        psycopg.connect(of_owner, autocommit=True) as connection,
        psycopg.connect(conninfo, autocommit=True) as between,
        psycopg.connect(conninfo) as idle,
    ):
        idle.execute("SET idle_in_transaction_session_timeout = 0")
        idle.execute("SELECT 1")
        between.execute("SELECT 1")
        time.sleep(0.6)
        assert not Readers().step(connection)
        between.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            idle.execute("SELECT 1")


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_it_changes_nothing(database: str, tmp_path: Path, statement: str) -> None:
    """What would change data, or read files, is refused for lack of rights, whatever the connection sets."""
    with psycopg.connect(make_role(database, tmp_path), autocommit=True) as reader:
        reader.execute("SET default_transaction_read_only = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(statement.format(ROLE).encode())


def test_it_sees_no_secret(database: str, tmp_path: Path) -> None:
    """Of the server's own tables, it reads those that rows refer to, and no others."""
    conninfo = make_role(database, tmp_path)
    tables = "SELECT relname FROM pg_class WHERE relnamespace = 'store'::regnamespace AND relkind IN ('r', 'p', 'v')"
    with psycopg.connect(conninfo, autocommit=True) as reader:
        others = {name for (name,) in reader.execute(tables)} - set(REFERRED)
        assert {"users", "api_tokens", "logins", "join_tokens", "certificates", "audit"} <= others
        for name in others - {name for name in others if name.startswith("batches")}:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier("store", name)))
    assert "store" not in ROWS


async def test_it_reads_rows(line: Line, tmp_path: Path) -> None:
    """Rows of each stream reach it with all their texts."""
    await tell_every_stream(line)
    conninfo = make_role(line.conninfo, tmp_path)
    with psycopg.connect(conninfo, autocommit=True) as reader:
        for stream in TABLES:
            asked = sql.SQL("SELECT * FROM {}('-infinity') LIMIT 1").format(sql.Identifier("scope", stream))
            assert reader.execute(asked).fetchone(), stream


def test_a_role_that_may_more_is_refused(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command does not turn the owner into a reader, and says what to do."""
    owner = str(psycopg.conninfo.conninfo_to_dict(database)["user"])
    with pytest.raises(AssertionError):
        make_role(database, tmp_path, owner)
    assert "choose another name" in capsys.readouterr().err


def test_a_database_without_tables_is_refused(
    empty_database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the server's first start there is nothing to read; the command says so."""
    with pytest.raises(AssertionError):
        make_role(empty_database, tmp_path)
    assert "start the server with it first" in capsys.readouterr().err
