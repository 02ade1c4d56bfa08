"""The commands on the page docs/backup.md make backups that can be restored."""

import asyncio
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.integration.server.records import STORED, rows
from tests.integration.server.stand_in_agent import StandInAgent
from tests.integration.server.test_app import answers, recorded, uploading
from tests.integration.server.test_restored import acknowledged, ended

from scope_server.store.postgres import PrivatePostgres
from scope_server.store.postgres.cluster import find_binaries

PAGE = Path(__file__).parents[3] / "docs" / "backup.md"
COMMANDS = dict(re.findall(r"^```sh (\w+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))

Work = Callable[[str, Path, Path], None]


@pytest.fixture
def work(tmp_path: Path) -> Work:
    """Runs the commands of a block; replaces only the paths of state and cluster."""
    folder = tmp_path / "backup"
    folder.mkdir()

    def run(block: str, state: Path, cluster: Path) -> None:
        adapted = COMMANDS[block].replace("/var/lib/scope/postgres", str(cluster)).replace("/var/lib/scope", str(state))
        path = f"{find_binaries()}:{os.environ['PATH']}"
        ran = subprocess.run(
            ["bash", "-e", "-c", adapted],
            cwd=folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ran.returncode == 0, ran.stderr

    return run


@pytest.fixture
def scope(postgres: PrivatePostgres, template: str) -> str:
    """The connection string of a new database with the name that `scope up` gives to its own."""
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS scope WITH (FORCE)")
        connection.execute(f"CREATE DATABASE scope TEMPLATE {template} STRATEGY file_copy".encode())
    return postgres.conninfo()


@pytest.fixture
def cluster() -> Iterator[Path]:
    """A folder in memory, whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="scope", dir="/dev/shm") as folder:
        yield Path(folder) / "postgres"


async def test_a_dump_is_restored_under_a_running_server(
    start_server: Callable[..., Any], postgres: PrivatePostgres, scope: str, work: Work, tmp_path: Path
) -> None:
    """A dump made while agents send takes the database's place while they are connected: its rows are there, later rows
    are counted as lost, and the identity is that of the copied files."""
    agent, cluster = StandInAgent(), postgres.directory
    async with start_server(database=scope) as server:
        async with agent.attending(server) as channel, uploading(agent, channel) as call:
            run = await recorded(server, agent)
            batches = [run.batch(n + 1, rows(101, 101 * n), emitted=101 * (n + 1)) for n in range(3)]
            assert await answers(call, run.start(), batches[0]) == [STORED] * 2
            await asyncio.to_thread(work, "backup", tmp_path, cluster)
            assert await answers(call, batches[1]) == [STORED]
            await asyncio.to_thread(work, "restore", tmp_path, cluster)
            await ended(agent)
        agent.acknowledged = [acknowledged(run, (1, 2, 202), until_s=77)]
        async with agent.attending(server) as channel, uploading(agent, channel) as call:
            assert await answers(call, batches[2]) == [STORED]
            assert server.query("SELECT count(*), count(DISTINCT arg0) FROM scope.syscall") == [(202, 202)]
            assert server.query("SELECT reason, count FROM scope.losses") == [("restored", 101)]
    work("identity", tmp_path / "new", cluster)
    for name in ("authority/key.pem", "authority/certificate.pem"):
        assert (tmp_path / "new" / name).read_bytes() == (tmp_path / name).read_bytes()


def test_a_copy_of_a_stopped_cluster_is_put_back(cluster: Path, work: Work) -> None:
    """The copied directory of a stopped cluster, put in its place again, has what was there then."""
    blocks = iter(("copy", "replace"))
    for expected in (0, 1, 1):
        memory = PrivatePostgres(cluster, {"fsync": "off"})
        with memory as postgres, psycopg.connect(postgres.conninfo(), autocommit=True) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS kept (row integer)")
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (expected,)
            connection.execute("INSERT INTO kept VALUES (1)")
        if block := next(blocks, ""):
            work(block, cluster.parent, cluster)
