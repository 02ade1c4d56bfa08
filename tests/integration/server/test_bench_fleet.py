"""`scope bench fleet`: real sessions of many agents with one server."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from tests.integration.server.redis_server import RedisServer

from scope_cli.bench_fleet.control import start_to_run
from scope_cli.bench_fleet.fleet import Fleet
from scope_cli.bench_fleet.measure import delays, idle, returned
from scope_cli.bench_fleet.rows import Rows
from scope_cli.bench_fleet.server import FleetServer
from scope_cli.errors import CommandError
from scope_server.store.postgres.leftovers import processes_in

AGENTS = 31
PATIENCE_S = 120.0


@pytest.fixture(params=["alone", "with writers"])
def server(request: pytest.FixtureRequest) -> Iterator[FleetServer]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scope", dir="/dev/shm")))
        redis = ""
        if request.param == "with writers":
            redis = stack.enter_context(RedisServer(folder / "redis")).url
        yield stack.enter_context(FleetServer(folder, AGENTS + 1, redis))


def test_a_server_that_does_not_start_leaves_no_database(tmp_path: Path) -> None:
    """What was started for it ends with the error."""
    folder = tmp_path / "bench"
    with pytest.raises(CommandError, match="the server does not start"), FleetServer(folder, sessions=-1):
        pass
    assert not processes_in(folder / "postgres" / "data")


async def test_a_small_fleet(server: FleetServer, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """All agents are connected, are measured, record, and are all back after a restart."""
    fleet = Fleet(AGENTS, tmp_path, server.authority, server.ingest, Rows(rate=40, every_s=0.25))
    server.enrol(agent.membership.credentials.holder for agent in fleet.agents)
    async with fleet.running():
        await fleet.all_served(PATIENCE_S)
        assert server.client().get_server()["agents"] == AGENTS
        with psycopg.connect(server.conninfo) as connection:
            members = connection.execute("SELECT count(*) FILTER (WHERE confirmed), count(*) FROM store.members")
            assert members.fetchone() == (AGENTS, AGENTS)
        found = await idle(server, AGENTS, 0, 10.0)
        assert min(found.cpu_share, found.statements_a_second, found.bytes_an_agent) > 0
        task_id, _ = await start_to_run(server.client(), fleet.agents[7].node.machine_id)
        assert [len(agent.tasks) for agent in fleet.agents] == [number == 7 for number in range(AGENTS)]
        server.client().post("tasks", task_id, "stop")
        recorded = await delays(server, fleet.agents[:3], 5.0)
        with psycopg.connect(server.conninfo) as connection:
            (stored,) = connection.execute("SELECT sum(event_count) FROM store.batches").fetchall()[0]
        assert 0 < 5.0 * recorded.events_a_second <= stored  # each batch counts once
        others = {"PostgreSQL"} if "alone" in request.node.name else {"PostgreSQL", "the writers", "Redis"}
        assert recorded.others_cpu.keys() == others
        assert min(recorded.server_cpu, recorded.agents_cpu, *recorded.others_cpu.values()) > 0
        assert 0 < recorded.p50_s <= recorded.p99_s < PATIENCE_S
        again = await returned(server, fleet, tmp_path / "one-more", PATIENCE_S)
        assert again.starts > 0
        assert server.client().get_server()["agents"] in (AGENTS, AGENTS + 1)  # one more was there, and has gone
        assert fleet.served == AGENTS
        assert min(agent.link.connections for agent in fleet.agents) >= 2
