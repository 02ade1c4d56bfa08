"""Replicas of the database answer queries, say how old their data are, and are left out when they cannot."""

import asyncio
import json
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import psycopg
import pytest
from tests.integration.server.api.recorded import WINDOW
from tests.integration.server.records import STORED, Line, Run, lined, make_machine, rows, stacks
from tests.integration.server.running import Server, running, until
from tests.integration.server.standby import Standby, primary
from tests.integration.server.tables import migrated

from scope_server.api.routing.headers import AGE
from scope_server.api.routing.route import never
from scope_server.api.table import TABLE
from scope_server.errors import StoreUnavailable
from scope_server.settings import Settings
from scope_server.store.postgres import PrivatePostgres
from scope_server.store.reading.queries import queries
from scope_server.store.reading.replica import Replica

FOREVER_S, BOUND_S = 3600.0, 3.0
WHOLE = {**WINDOW, "limit": "1000"}
Start = Callable[..., AbstractAsyncContextManager[Server]]
# A question for each route that a replica may answer.
QUESTIONS: Mapping[str, tuple[str, dict[str, str]]] = {
    "get_events": ("events/syscall", WHOLE),
    "get_losses": ("losses", WINDOW),
    "get_aggregates": ("aggregates/syscall", {**WINDOW, "every": "1m"}),
    "get_heatmap": ("heatmap/syscall", {**WINDOW, "column": "duration_ns"}),
    "get_flamegraph": ("flamegraph/cuda_live", {**WINDOW, "format": "folded"}),
    "export_events": ("export/syscall", {**WINDOW, "format": "ndjson"}),
    "get_difference": ("compare/syscall", {**WINDOW, "where": "cpu = 0"}),
    "get_slowest": ("slowest/syscall", WINDOW),
    "get_trace": ("trace", {**WINDOW, "streams": "syscall", "format": "chrome"}),
    "get_why": ("why", {**WINDOW, "pid": "4711"}),
    "get_why_timeline": ("why/timeline", {**WINDOW, "pid": "4711"}),
    "get_states": ("states/cuda_live", {}),
}


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[PrivatePostgres, Standby]]:
    """A primary and its replica."""
    with tempfile.TemporaryDirectory(prefix="scope", dir="/dev/shm") as folder, primary(Path(folder) / "p") as first:
        with Standby(first, Path(folder) / "s") as second:
            yield first, second
        first.stop(immediate=True)


@pytest.fixture
def standby(clusters: tuple[PrivatePostgres, Standby]) -> Iterator[Standby]:
    """The replica, which replays."""
    yield clusters[1]
    clusters[1].release()


@pytest.fixture
async def line(clusters: tuple[PrivatePostgres, Standby]) -> AsyncIterator[Line]:
    """The ingest path into the primary, with 101 rows of a machine of the test's own."""
    async with lined(clusters[0].conninfo()) as started:
        started.machine = await asyncio.to_thread(make_machine, started.conninfo, uuid4().hex)
        await send(started, 101)
        yield started


async def send(line: Line, count: int) -> Run:
    """Stores rows; returns their run."""
    run = Run()
    batches = (
        run.start(),
        run.batch(1, rows(count)),
        run.batch(1, stacks(["one;two", "one;three"]), stream="cuda_live"),
    )
    assert {answer.verdict for answer in await line.send(*batches)} == {STORED}
    return run


@pytest.fixture
def start(standby: Standby, line: Line, tmp_path: Path) -> Start:
    """Runs a server over the primary and the replica, which has all rows and is asked when the block begins."""

    @asynccontextmanager
    async def started(**changes: Any) -> AsyncIterator[Server]:
        anywhere: dict[str, Any] = dict.fromkeys(("http", "ingest", "enrol"), "127.0.0.1:0")
        files: dict[str, Any] = {
            "socket": tmp_path / "api.sock",
            "authority": tmp_path / "authority",
            "state_dir": tmp_path,
        }
        given = {"read_database": (standby.conninfo,), "read_age_s": FOREVER_S, **changes}
        async with running(Settings(database=line.conninfo, **anywhere, **files, **given)) as server:
            await asyncio.to_thread(standby.catch_up)
            await until(lambda: replica(server), lambda found: found["state"] == "ok" or "read_database" in changes)
            yield server

    return started


async def replica(server: Server) -> Any:
    """The replica, as the server tells of it."""
    (found,) = (await server.get("server"))["replicas"]
    return found


async def metrics(server: Server) -> dict[str, float]:
    """The metrics about the replica, by their names."""
    async with (
        aiohttp.ClientSession(connector=server.local()) as session,
        session.get(f"http://{server.http}/metrics") as answer,
    ):
        text = await answer.text()
    return {name: float(value) for name, value in re.findall(r"^scope_server_replica_(\w+)\{.*?\} (.*)$", text, re.M)}


async def told(server: Server, path: str, asked: Mapping[str, str], **headers: str) -> tuple[float, bytes]:
    """The age in the header of an answer, and its body."""
    async with (
        aiohttp.ClientSession(connector=server.local(), headers=headers) as session,
        session.get(f"http://{server.http}/api/v1/{path}", params=asked) as answer,
    ):
        body = await answer.read()
        assert answer.status == 200, body
        return float(answer.headers[AGE]), body


async def count(server: Server, line: Line, **asked: str) -> tuple[int, float]:
    """How many rows of the test's machine there are, and how old the answer says they are."""
    header, body = await told(server, "events/syscall", {**WHOLE, "machine": line.machine.machine_id, **asked})
    page = json.loads(body)
    assert page["age_s"] == pytest.approx(header)
    return len(page["events"]), page["age_s"]


async def test_every_question_has_the_same_answer(start: Start, line: Line) -> None:
    """Each route that may be answered by a replica is, as by the primary; its age is in a header and in JSON."""
    assert QUESTIONS.keys() == {route.name for route in TABLE if route.lags is not never}
    async with start() as server:
        machine = {"machine": line.machine.machine_id}
        for number, (name, (path, others)) in enumerate(QUESTIONS.items()):
            asked = {**others, **machine} if "pid" in others else others
            assert (await metrics(server))["answers_total"] == number, name
            age_s, body = await told(server, path, asked)
            primary_age_s, of_primary = await told(server, path, asked, **{"Cache-Control": "no-cache"})
            assert age_s > primary_age_s == 0, name
            if body.startswith(b'{"age_s"'):
                assert json.loads(body) == {**json.loads(of_primary), "age_s": age_s}, name
            else:
                assert body == of_primary, name
        assert await metrics(server) | {"age_seconds": 0} == {
            "up": 1,
            "answers_total": len(QUESTIONS),
            "failures_total": 0,
            "age_seconds": 0,
        }


async def test_lag_is_told(start: Start, line: Line, standby: Standby) -> None:
    """A replica that is held back answers with the rows it has, and says since when it may lack some."""
    async with start() as server:
        assert (await count(server, line))[0] == 101
        standby.hold()
        await send(line, 53)
        sent = time.monotonic()
        await asyncio.sleep(2)
        before = time.monotonic()
        found, age_s = await count(server, line)
        assert found == 101
        assert before - sent <= age_s
        state = await replica(server)
        assert (state["state"], state["age_s"] >= age_s) == ("ok", True)
        assert (await metrics(server))["age_seconds"] >= age_s
        standby.release()
        await until(lambda: count(server, line), lambda found: found[0] == 154 and found[1] > 0)


async def test_what_follows_or_was_just_written_is_asked_of_the_primary(
    start: Start, line: Line, standby: Standby
) -> None:
    """Cursors, the order of commits, what the replica does not know yet, and what asks for it, have the newest rows."""
    async with start() as server:
        standby.hold()
        run = await send(line, 53)
        assert (await count(server, line))[0] == 101
        assert await count(server, line, order="stored") == (154, 0)
        assert await count(server, line, task=str(run.task_id)) == (53, 0)
        later = await asyncio.to_thread(make_machine, line.conninfo, uuid4().hex)
        assert await count(server, line, machine=later.machine_id) == (0, 0)
        asked = {"machine": line.machine.machine_id, **WINDOW, "limit": "11"}
        _, first = await told(server, "events/syscall", asked)
        cursor = json.loads(first)["next"]
        assert (await told(server, "events/syscall", {**asked, "cursor": cursor}))[0] == 0


async def test_a_replica_that_lags_too_much_is_left_out(start: Start, line: Line, standby: Standby) -> None:
    """Beyond the bound the primary answers, and health and metrics say so; the server stays healthy."""
    async with start(read_age_s=BOUND_S) as server:
        standby.hold()
        await send(line, 53)
        await until(lambda: count(server, line), lambda found: found == (154, 0))
        found = await until(lambda: replica(server), lambda found: found["state"] != "ok")
        assert re.fullmatch(r"is \d+ s behind", found["state"])
        assert found["age_s"] > BOUND_S
        assert (await metrics(server))["up"] == 0
        assert (await server.ask("GET", "health"))[0] == 200
        standby.release()
        await until(lambda: count(server, line), lambda found: found[0] == 154 and found[1] > 0)


async def test_a_replica_that_is_away_is_left_out(start: Start, line: Line, standby: Standby) -> None:
    """Killed, its question is answered by the primary, also before anybody has noticed; started again, it answers."""
    async with start() as server:
        await count(server, line)  # over a connection that is lost now
        standby.kill()
        assert await count(server, line) == (101, 0)
        found = await until(lambda: replica(server), lambda found: found["state"] != "ok")
        assert found["state"].startswith("cannot be reached: ")
        standby.start()
        await until(lambda: count(server, line), lambda found: found[0] == 101 and found[1] > 0)


async def test_a_replica_that_hangs_is_left_out(start: Start, line: Line, standby: Standby) -> None:
    """A question that a replica has, and does not answer, goes to the primary; later ones go there at once."""
    async with start() as server:
        await count(server, line)
        standby.pause()
        try:
            assert await count(server, line) == (101, 0)
            assert (await replica(server))["state"] == "does not answer"
            assert (await metrics(server))["failures_total"] == 1
            assert await count(server, line) == (101, 0)
            assert (await metrics(server))["failures_total"] == 1
        finally:
            standby.resume()
        await until(lambda: count(server, line), lambda found: found[0] == 101 and found[1] > 0)


async def test_a_primary_is_no_replica(start: Start, line: Line) -> None:
    """A database that does not replay a log is never asked."""
    async with start(read_database=(line.conninfo,)) as server:
        await until(lambda: replica(server), lambda found: found["state"] == "is no replica")
        assert await count(server, line) == (101, 0)


async def test_a_replica_lacks_new_tables(standby: Standby) -> None:
    """A table that a replica has not replayed yet is asked of the primary, not an error."""
    async with Replica(standby.conninfo, 2, 20) as asked:
        with pytest.raises(StoreUnavailable, match="lacks what the primary may have"):
            await asked.rows(b"SELECT * FROM scope.learnt_since")


def test_a_promoted_replica_has_another_history(clusters: tuple[PrivatePostgres, Standby]) -> None:
    """From the first moment on, so that what it lacks is booked then. It is the last test: the replica is none now."""
    first, second = clusters
    migrated(first.conninfo())
    second.catch_up()

    def history(conninfo: str) -> Any:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            return (connection.execute(queries()["history"]).fetchone() or ("",))[0]

    before = history(first.conninfo())
    second.promote()
    assert history(second.conninfo) != before
    assert history(first.conninfo()) == before
