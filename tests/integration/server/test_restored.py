"""A database restored from an older copy: what is gone is counted as lost, and what was stopped stays stopped."""

import asyncio
import itertools
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from tests.integration.server.records import BOOT_TO_UTC_NS, LATER, STORED, Line, Run, description, rows
from tests.integration.server.running import until
from tests.integration.server.stand_in_agent import RUNNING, STOPPED, StandInAgent
from tests.integration.server.test_app import answers, recorded, uploading

from scope_catalogue.catalogue import streams
from scope_proto.scope.v1 import record_pb2, session_pb2
from scope_server.session import restored
from scope_server.store.postgres import PrivatePostgres

StartServer = Callable[..., Any]
Database = Callable[..., None]


@pytest.fixture
def copy(postgres: PrivatePostgres, database: str) -> Database:
    """Copies the database when called, and puts the copy in its place when called with `back=True`; both also while a
    server is connected."""
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]

    def run(back: bool = False) -> None:
        with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            if back:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
                connection.execute(f"ALTER DATABASE {name}_copy RENAME TO {name}".encode())
            else:
                connection.execute(f"CREATE DATABASE {name}_copy TEMPLATE {name}".encode())
                connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())

    return run


def acknowledged(run: Run, *spans: tuple[int, int, int], until_s: int) -> session_pb2.Acknowledged:
    return session_pb2.Acknowledged(
        run_id=run.run_id.bytes,
        stream="syscall",
        spans=[record_pb2.Span(first=first, last=last, events=events) for first, last, events in spans],
        last_ktime_ns=until_s * 10**9,
        boot_to_utc_ns=BOOT_TO_UTC_NS,
    )


async def ended(agent: StandInAgent) -> None:
    await until(lambda: _details(agent), lambda details: details == restored.WENT_BACK)


async def _details(agent: StandInAgent) -> str:
    return agent.details


async def test_what_a_restored_database_lacks_is_counted_as_lost(
    start_server: StartServer, copy: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """If the database is replaced by an older copy under a running server, sessions begin again; acknowledged events
    that the copy lacks are lost, with their times, in log and notes, once. What was not acknowledged comes again."""
    agent = StandInAgent().quiet()
    async with start_server() as server:
        async with agent.attending(server) as channel, uploading(agent, channel) as call:
            run = await recorded(server, agent)
            batches = [run.batch(n + 1, rows(101, 101 * n), emitted=101 * (n + 1)) for n in range(7)]
            assert await answers(call, run.start(), *batches[:2]) == [STORED] * 3
            await asyncio.to_thread(copy)
            assert await answers(call, *batches[2:6]) == [STORED] * 4
            await asyncio.to_thread(copy, back=True)
            await ended(agent)
        # The answer to batch 6 did not reach the agent.
        agent.acknowledged = [acknowledged(run, (1, 5, 505), until_s=77)]
        for _ in range(2):
            async with agent.attending(server) as channel, uploading(agent, channel) as call:
                assert await answers(call, *batches[5:]) == [STORED] * 2
            task = await server.task(str(run.task_id))
            (stream,) = task["streams"]
            assert (stream["emitted"], stream["stored"], stream["under_way"]) == (707, 404, 0)
            assert stream["lost"] == [{"place": "ingest", "reason": "restored", "count": 303}]
        ((since, last),) = server.query("SELECT first_time, last_time FROM scope.losses")
        boot = datetime.fromtimestamp(BOOT_TO_UTC_NS / 1e9, UTC)
        assert (round((since - boot).total_seconds(), 3), (last - boot).total_seconds()) == (1.0, 77)
        (note,) = task["notes"]
        assert note.startswith("syscall: 303 events of ")
        assert "the database was restored from an older copy" in note
    (said,) = (record for record in caplog.records if "lacks acknowledged events" in record.message)
    assert (said.levelno, said.events, said.run_id) == (logging.ERROR, 303, str(run.run_id))  # type: ignore[attr-defined]


async def test_what_is_stored_ahead_of_its_answer_is_not_counted(start_server: StartServer) -> None:
    """A database that has all that was acknowledged, and more, has lost nothing."""
    agent = StandInAgent().quiet()
    async with start_server() as server:
        async with agent.attending(server) as channel, uploading(agent, channel) as call:
            run = await recorded(server, agent)
            batches = [run.batch(n + 1, rows(11, 11 * n), emitted=11 * (n + 1)) for n in range(4)]
            assert await answers(call, *batches) == [STORED] * 4
        agent.acknowledged = [acknowledged(run, (1, 1, 11), (3, 3, 11), until_s=1)]
        async with agent.attending(server):
            assert server.query("SELECT stored, lost FROM scope.books") == [(44, 0)]
            assert (await server.task(str(run.task_id)))["notes"] == []


async def test_tables_that_are_restored_in_their_place_are_noticed(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    """While a counter of the database is missing, the server goes on; when it went backwards, sessions begin again."""
    agent, earlier = StandInAgent().quiet(), itertools.count(-1_000_000)

    async def went_back() -> str:
        server.query("SELECT setval('store.batch_ids', %s)", -next(earlier))  # lower than at any question before
        return agent.details

    async with start_server() as server, agent.attending(server):
        server.query("ALTER SEQUENCE store.batch_ids RENAME TO away")
        await until(lambda: _logged(caplog), lambda text: "cannot tell whether the database was restored" in text)
        server.query("ALTER SEQUENCE store.away RENAME TO batch_ids")
        await until(went_back, lambda details: details == restored.WENT_BACK)
        assert (await server.ask("GET", "health"))[0] == 200


async def _logged(caplog: pytest.LogCaptureFixture) -> str:
    return caplog.text


async def test_a_machine_that_a_restored_database_lacks_is_no_other(line: Line) -> None:
    """A record that waited during the restore is not stored for the machine that now has its key. It is asked for
    later: the machine's next session has another key."""
    gone = [replace(line.machine, machine_id="e" * 32), replace(line.machine, machine_id="e" * 32, key=77)]
    for machine in gone:
        (answer,) = await line.send(Run().batch(1, rows(11)), machine=machine)
        assert (answer.verdict, "does not have the machine" in answer.reason) == (LATER, True)
    assert line.query("SELECT count(*) FROM scope.tasks") == [(0,)]
    assert [answer.verdict for answer in await line.send(Run().batch(1, rows(11)))] == [STORED]


@pytest.mark.parametrize("forgotten", [False, True])
async def test_a_task_stopped_after_the_copy_stays_stopped(
    start_server: StartServer, copy: Database, caplog: pytest.LogCaptureFixture, forgotten: bool
) -> None:
    """A task that was stopped after the copy was taken is not started again, whether its agent still knows it or not;
    one that ran goes on, and one that is started after the restore is started."""
    agent = StandInAgent().quiet()
    async with start_server() as server:
        async with agent.attending(server):
            stopped, running = await server.start(), await server.start()
            await asyncio.to_thread(copy)
            await until(lambda: server.ask("POST", f"tasks/{stopped}/stop"), lambda answer: answer[0] == 200)
            await asyncio.to_thread(copy, back=True)
            await ended(agent)
        if forgotten:
            del agent.tasks[stopped]
        await until(lambda: server.ask("GET", "health"), lambda answer: answer[0] == 200)
        new = await server.start(node="stand-in")
        async with agent.attending(server):
            await until(lambda: _states(agent), lambda states: states.get(new) == RUNNING)
            states = await _states(agent)
            assert states.pop(running) == RUNNING
            assert states in ({stopped: STOPPED, new: RUNNING}, {new: RUNNING})
            task = await server.task(stopped)
            assert (task["wanted"], task["reason"]) == (False, restored.STOPPED)
    (said,) = (record for record in caplog.records if "are not started again" in record.message)
    assert said.tasks == [stopped]  # type: ignore[attr-defined]


async def _states(agent: StandInAgent) -> dict[str, int]:
    return {task_id: task.run.state for task_id, task in agent.tasks.items()}


async def test_a_stream_learnt_after_the_copy_is_made_again(start_server: StartServer, copy: Database) -> None:
    """A stream that agents described after the copy was taken has its table again, and its description: the next server
    knows it, too."""
    stream, agent = replace(streams()["syscall"], name="from_the_future", probe="oracle"), StandInAgent().quiet()
    async with start_server() as server:
        async with agent.attending(server) as channel, uploading(agent, channel) as call:
            run = await recorded(server, agent)
            assert await answers(call, run.start()) == [STORED]
            await asyncio.to_thread(copy)
            await call.write(description(stream))
            assert await answers(call, run.batch(1, rows(11), stream=stream.name)) == [STORED]
            await asyncio.to_thread(copy, back=True)
            await ended(agent)
        async with agent.attending(server) as channel, uploading(agent, channel) as call:
            run = await recorded(server, agent)
            assert await answers(call, run.start(), run.batch(1, rows(13), stream=stream.name)) == [STORED] * 2
        assert server.query("SELECT count(*) FROM scope.from_the_future") == [(13,)]
        assert server.query("SELECT stream FROM store.descriptions") == [(stream.name,)]


async def test_writers_ask_for_keys_again_after_a_restore_in_place(line: Line) -> None:
    """A writer's connection may outlive a restore of the tables in their place. It notices that ids went backwards, and
    uses no key that it knew from before."""
    run = Run()
    assert [answer.verdict for answer in await line.send(run.batch(1, rows(11)))] == [STORED]
    line.query("DELETE FROM store.processes RETURNING 1")
    line.query("SELECT setval('store.batch_ids', 1, false)")
    assert [answer.verdict for answer in await line.send(run.batch(2, rows(13, 11)))] == [STORED]
    assert line.query("SELECT count(*) FROM store.processes") != [(0,)]
    assert line.query("SELECT count(pid) FROM scope.syscall") == [
        (13,)
    ]  # those before were of processes that the copy lacks
