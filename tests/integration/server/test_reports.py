"""Reports: locks and outages of the database lose no report, and no report harms other tasks or machines."""

import asyncio
import contextlib
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.integration.server.running import Server, node, until
from tests.integration.server.stand_in_agent import MACHINE, RUNNING, STOPPED, StandInAgent, new_run_id

from scope_proto.scope.v1 import task_pb2
from scope_server.store.postgres import PrivatePostgres

StartServer = Callable[..., Any]


@contextlib.contextmanager
def locked(server: Server, *tables: str) -> Iterator[None]:
    """Locks these tables against reads and writes while inside."""
    with psycopg.connect(server.conninfo) as blocker:
        blocker.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE".encode())
        yield


async def test_a_lock_freezes_no_state(start_server: StartServer) -> None:
    """Reports that arrive while tables are locked are written later, even if the agent has disconnected."""
    agent = StandInAgent()
    async with start_server(statement_timeout_s=1.0) as server:
        async with agent.attending(server):
            ended = await server.start()
            with locked(server, "store.tasks", "store.runs"):
                agent.change(ended, STOPPED, end=task_pb2.TASK_END_LEASE)
                begun = agent.begin_own()
                await asyncio.sleep(4)
        task = await until(lambda: server.task(ended), lambda task: task["state"] == "stopped")
        assert (task["wanted"], task["runs"][0]["end"]) == (False, "lease")
        statement = "SELECT wanted FROM store.tasks WHERE task_id = %s"
        await until(lambda: asyncio.to_thread(server.query, statement, begun), lambda found: found == [(True,)])


async def test_an_outage_freezes_no_state(start_server: StartServer) -> None:
    """Reports that arrive while the database is down are written when it is back."""
    agent = StandInAgent()
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        mortal = PrivatePostgres(Path(folder) / "pg")
        await asyncio.to_thread(mortal.start)
        try:
            async with start_server(database=mortal.conninfo()) as server, agent.attending(server):
                task_id = await server.start()
                await asyncio.to_thread(mortal.stop, immediate=True)
                agent.change(task_id, STOPPED, end=task_pb2.TASK_END_LEASE)
                await asyncio.sleep(2)
                assert (await server.ask("GET", "tasks"))[0] == 503
                await asyncio.to_thread(mortal.start)
                asked = f"tasks/{task_id}"
                await until(lambda: server.ask("GET", asked), lambda answer: answer[1].get("state") == "stopped")
                assert (await node(server))["connected"]
        finally:
            mortal.stop(immediate=True)


@pytest.mark.parametrize("written", ["task", "run"])
async def test_a_report_beside_the_first_record_is_not_lost(start_server: StartServer, written: str) -> None:
    """A record and the first report of a run arrive together. The report is kept, whoever creates the rows."""
    agent = StandInAgent()
    agent.every_s = None  # it does not tell the same again
    insert_task = """INSERT INTO store.tasks (task_id, machine, origin, probe, definition, wanted)
                     SELECT %(task)s, max(id), 'agent', 'syscalls', '{}', false FROM store.machines"""
    insert_run = """INSERT INTO store.runs (run_id, task, installation, state)
                    SELECT %(run)s, id, 'stand-in', 'running' FROM store.tasks WHERE task_id = %(task)s"""
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    async with start_server() as server, agent.attending(server):
        ids = {"task": str(uuid.uuid4()), "run": new_run_id()}
        with psycopg.connect(server.conninfo) as writer:
            writer.execute(insert_task, ids)
            if written == "run":
                writer.commit()
                writer.execute(insert_run, ids)
            agent.begin(ids["task"], task_pb2.Definition(probe="syscalls"), task_pb2.ORIGIN_AGENT)
            agent.change(ids["task"], RUNNING, run_id=ids["run"]).run.notes.append("nothing to attach to")
            await until(lambda: asyncio.to_thread(server.query, waits), bool)
        asked = f"tasks/{ids['task']}"
        _, task = await until(lambda: server.ask("GET", asked), lambda answer: bool(answer[1].get("notes")))
        assert (task["notes"], task["wanted"]) == (["nothing to attach to"], True)
        assert task["target"] == {}


async def test_what_was_emitted_goes_on_being_told(start_server: StartServer) -> None:
    """Reports update the emitted count, which never falls; without records, these events count as under way."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server):
        task_id = await server.start()
        for emitted, expected in ((101, 101), (97, 101), (211, 211)):
            agent.tasks[task_id].run.accounts["syscall"].emitted = emitted
            agent.change(task_id, RUNNING)
            task = await until(
                lambda: server.task(task_id),
                lambda task, expected=expected: task["streams"] and task["streams"][0]["emitted"] == expected,
            )
            (stream,) = task["streams"]
            assert (stream["stored"], stream["under_way"], stream["lost"]) == (0, expected, [])


async def test_a_late_report_opens_no_books(start_server: StartServer) -> None:
    """A report that is written after the run's end changes no count: the end's account was the last."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server):
        task_id = await server.start()
        agent.tasks[task_id].run.accounts["syscall"].emitted = 101
        agent.change(task_id, RUNNING)
        await until(lambda: server.task(task_id), lambda task: bool(task["streams"]))
        server.query("UPDATE store.accounts SET stored = 101, last_sequence = 0")
        agent.tasks[task_id].run.accounts["syscall"].emitted = 115
        agent.change(task_id, STOPPED)
        await until(lambda: server.task(task_id), lambda task: task["runs"][0]["state"] == "stopped")
        await asyncio.sleep(0.5)  # the counts are written after the state
        assert (await server.task(task_id))["streams"][0]["emitted"] == 101


async def test_what_cannot_be_entered_holds_up_nothing(start_server: StartServer) -> None:
    """Invalid tasks in a report are skipped; the other tasks are stored."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server):
        bad = [agent.begin_own(probe) for probe in ("nul\0", "x" * 64)]
        endless = agent.begin_own()
        agent.tasks[endless].definition.options["x"] = float("inf")
        good = agent.begin_own("sched")
        run = agent.tasks[good].run
        run.error, run.cost.cpu_share, run.sent_bytes = "a\0b", float("nan"), (1 << 64) - 1
        run.accounts["syscall"].emitted = (1 << 64) - 1
        run.accounts["n\0l"].emitted = 1
        run.ended.seconds = 1 << 60
        await until(lambda: server.ask("GET", f"tasks/{good}"), lambda answer: answer[1].get("state") == "running")
        for task_id in (*bad, endless):
            assert (await server.ask("GET", f"tasks/{task_id}"))[0] == 404
        assert (await node(server))["connected"]


async def test_another_machines_tasks_are_not_touched(start_server: StartServer) -> None:
    """An agent that reports a task or run of another machine does not change it."""
    agent, other = StandInAgent(), StandInAgent("other", "f" * 32)
    async with start_server() as server, agent.attending(server), other.attending(server):
        task_id = agent.begin_own()
        await until(lambda: server.ask("GET", f"tasks/{task_id}"), lambda answer: answer[0] == 200)
        other.tasks[task_id] = agent.tasks[task_id]
        other.tasks[task_id].run.end = task_pb2.TASK_END_REQUEST
        forged = other.begin_own()
        other.change(forged, RUNNING, run_id=agent.tasks[task_id].run.run_id, error="forged")
        await until(lambda: server.ask("GET", f"tasks/{forged}"), lambda answer: answer[0] == 200)
        task = await server.task(task_id)
        assert (task["node"], task["wanted"], task["runs"][0]["error"]) == (MACHINE, True, None)


def _leave_open(server: Server, task_id: str, run_id: str, settled: str, last: int | None = None) -> None:
    """Adds a run as a killed agent leaves it: 1000 events emitted, 300 stored, 7 lost."""
    server.query(
        """WITH run AS (
               INSERT INTO store.runs (run_id, task, installation, state, started)
               SELECT %s::uuid, id, 'earlier', 'running', now() - interval '1 hour' FROM store.tasks WHERE task_id = %s
               RETURNING id
           ), loss AS (
               INSERT INTO store.losses
               SELECT id, 'syscall', 'ring', 'ring_full', date_trunc('minute', now()), now(), now(), 7 FROM run
           )
           INSERT INTO store.accounts (run, stream, emitted, stored, lost, settled, last_sequence)
           SELECT id, 'syscall', 1000, 300, 7, %s::int8multirange, %s FROM run""",
        run_id,
        task_id,
        settled,
        last,
    )


async def books(server: Server, run_id: str) -> tuple[Any, ...]:
    statement = "SELECT emitted, stored, lost, under_way, closed FROM scope.books WHERE run_id = %s"
    (found,) = await asyncio.to_thread(server.query, statement, run_id)
    return found


@pytest.mark.parametrize(
    ("settled", "last"), [("{}", None), ("{[1,8)}", None), ("{[1,3),[5,8)}", None), ("{[2,4)}", 9)]
)
async def test_the_books_of_forgotten_runs_are_closed(
    start_server: StartServer, settled: str, last: int | None
) -> None:
    """A run that its agent no longer knows is closed as killed, and its events under way are counted as lost."""
    agent = StandInAgent()
    async with start_server() as server:
        async with agent.attending(server):
            task_id = await server.start()
            await server.stop(task_id)
        forgotten, kept = new_run_id(), new_run_id()
        _leave_open(server, task_id, forgotten, settled, last)
        _leave_open(server, task_id, kept, settled, last)
        agent.open_runs = [uuid.UUID(kept).bytes]
        async with agent.attending(server):
            found = await until(lambda: books(server, forgotten), lambda found: bool(found[4]))
            assert found == (1000, 300, 700, 0, True)
            assert await books(server, kept) == (1000, 300, 7, 693, False)
            runs = {run["run_id"]: run for run in (await server.task(task_id))["runs"]}
            assert (runs[forgotten]["state"], runs[forgotten]["end"]) == ("failed", "killed")
            assert (runs[kept]["state"], runs[kept]["end"]) == ("running", None)
            (stream,) = (await server.task(task_id))["streams"]
            assert {(one["place"], one["reason"]): one["count"] for one in stream["lost"]} == {
                ("agent", "forgotten"): 693,
                ("ring", "ring_full"): 14,
            }
        async with agent.attending(server):
            await asyncio.sleep(0.5)
            assert await books(server, forgotten) == (1000, 300, 700, 0, True)


async def test_a_run_is_not_forgotten_while_its_records_wait(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is not closed while the backlog may hold records of it from an earlier connection."""
    waiting = True
    monkeypatch.setattr("scope_server.ingest.backlog.Backlog.holds", lambda *_: waiting)
    agent = StandInAgent()
    async with start_server() as server:
        async with agent.attending(server):
            task_id = await server.start()
            await server.stop(task_id)
        run_id = new_run_id()
        _leave_open(server, task_id, run_id, "{}")
        async with agent.attending(server):
            await asyncio.sleep(1)
            assert await books(server, run_id) == (1000, 300, 7, 693, False)
            waiting = False
            await until(lambda: books(server, run_id), lambda found: bool(found[4]))


async def test_a_run_that_begins_while_the_database_is_slow_is_known(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is told after the first report, and before the server has looked for forgotten ones, goes on."""
    agent, begun = StandInAgent(), list[str]()
    async with start_server() as server:

        async def slow(*_: object) -> None:
            begun.append(agent.begin_own())
            statement = "SELECT 1 FROM store.runs r JOIN store.tasks t ON t.id = r.task WHERE t.task_id = %s"
            await until(lambda: asyncio.to_thread(server.query, statement, begun[0]), bool)

        monkeypatch.setattr("scope_server.session.restored.Restored.compare", slow)
        async with agent.attending(server):
            await asyncio.sleep(1)
            (run,) = (await server.task(begun[0]))["runs"]
            assert (run["state"], run["end"]) == ("running", None)
