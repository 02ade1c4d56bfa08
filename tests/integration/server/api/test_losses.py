"""GET /losses and the parameter `task`: what is missing, where, when, and of whose."""

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from tests.integration.server.records import BOOT_TO_UTC_NS, FIRST_KTIME_NS, Run, account, lined, make_machine, rows
from tests.integration.server.running import Server

from scope_proto.scope.v1 import task_pb2

StartServer = Callable[..., Any]
SINCE = datetime.fromtimestamp(BOOT_TO_UTC_NS // 10**9).astimezone()
WINDOW = {"since": SINCE.isoformat(), "until": (SINCE + timedelta(hours=6)).isoformat()}  # up to now, hours later too


async def _lost(server: Server, **query: Any) -> list[tuple[Any, ...]]:
    answer = await server.get("losses", **{**WINDOW, **query})
    return sorted((one["stream"], one["place"], one["reason"], one["count"]) for one in answer["losses"])


async def test_losses_have_times_and_belong_to_streams_machines_and_tasks(start_server: StartServer) -> None:
    """Each loss is told with its minute; a stream, machine, task or time selects its own, and nothing else."""
    one, two = Run(), Run()
    async with start_server() as server, lined(server.conninfo) as line:
        other = make_machine(line.conninfo, "f" * 32)
        await line.send(one.start(), one.batch(1, rows(101), 108, {("ring", "ring_full"): 7}), one.gap((2, 2, 13)))
        late = two.accounts(FIRST_KTIME_NS + 600 * 10**9, syscall=account(5, {("ring", "ring_full"): 5}))
        await line.send(two.start(), late, machine=other)
        assert await _lost(server) == [
            ("syscall", "ring", "ring_full", 5),
            ("syscall", "ring", "ring_full", 7),
            ("syscall", "spool", "full", 13),
        ]
        assert await _lost(server, machine="f" * 32) == [("syscall", "ring", "ring_full", 5)]
        assert await _lost(server, task=str(two.task_id)) == [("syscall", "ring", "ring_full", 5)]
        assert await _lost(server, task=str(two.task_id), machine="0123456789abcdef" * 2) == []
        assert await _lost(server, stream="open") == []
        assert len(await _lost(server, stream="syscall", until=(SINCE + timedelta(minutes=5)).isoformat())) == 2
        answer = await server.get("losses", **WINDOW, limit=1)
        assert (len(answer["losses"]), answer["more"]) == (1, True)
        for loss in (await server.get("losses", **WINDOW))["losses"]:
            moment = timedelta(seconds=1 if loss["count"] != 5 else 601)
            assert datetime.fromisoformat(loss["until"]).replace(microsecond=0) == SINCE + moment


async def test_a_time_without_a_recording_has_no_count(start_server: StartServer) -> None:
    """If a wanted task did not record for a while, the time is told, and that nobody knows how much it would be."""
    run = Run()
    async with start_server() as server, lined(server.conninfo) as line:
        await line.send(run.start(origin=task_pb2.ORIGIN_AGENT), run.batch(1, rows(7), 7))
        await line.send(run.end({"syscall": 1}, end=task_pb2.TASK_END_SHUTDOWN))
        server.query("UPDATE store.tasks SET wanted = true")
        (found,) = (await server.get("losses", **WINDOW, stream="syscall"))["losses"]
        assert (found["place"], found["reason"], found["count"]) == ("agent", "not_recorded", None)
        assert (found["until"], found["run_ended_by"]) == (None, "shutdown")
        assert found["task_id"] == str(run.task_id)


async def test_times_without_a_task(start_server: StartServer) -> None:
    """Of a stream, it is told when no task recorded it: before the first, between two and after the last; of a machine
    or a task its own. A time in which a task was wanted is a loss instead."""
    first, second, third = Run(), Run(), Run()

    def times(*minutes: int) -> list[datetime]:
        return [SINCE + timedelta(minutes=each) for each in minutes]

    async with start_server() as server, lined(server.conninfo) as line:
        other = make_machine(line.conninfo, "f" * 32)
        for run, machine in ((first, None), (second, None), (third, other)):
            await line.send(run.start(), run.batch(1, rows(7), 7), machine=machine)
        for run, began, ended in ((first, 10, 20), (second, 30, 40), (third, 15, 25)):
            server.query(
                f"UPDATE store.runs SET started = '{times(began)[0]}', ended = '{times(ended)[0]}', state = 'stopped'"
                f", \"end\" = 'request' WHERE run_id = '{run.run_id}'"
            )

        async def unrecorded(**query: Any) -> list[datetime]:
            window = {"since": SINCE.isoformat(), "until": times(60)[0].isoformat()}
            found = (await server.get("losses", **{**window, **query}))["unrecorded"]
            return [datetime.fromisoformat(one[name]) for one in found for name in ("since", "until")]

        assert await unrecorded(stream="syscall") == times(0, 10, 25, 30, 40, 60)
        assert await unrecorded(stream="syscall", machine="f" * 32) == times(0, 15, 25, 60)
        assert await unrecorded(stream="syscall", task=str(second.task_id)) == times(0, 30, 40, 60)
        assert await unrecorded(stream="syscall", since=times(12)[0].isoformat(), until=times(20)[0].isoformat()) == []
        assert await unrecorded(stream="open") == times(0, 60)
        assert await unrecorded() == []
        server.query(f"UPDATE store.runs SET ended = NULL, state = 'running' WHERE run_id = '{second.run_id}'")
        assert await unrecorded(stream="syscall") == times(0, 10, 25, 30)
        killed = f"\"end\" = 'killed' WHERE run_id = '{second.run_id}'"
        server.query(f"UPDATE store.runs SET ended = '{times(40)[0]}', state = 'stopped', {killed}")
        server.query(f"UPDATE store.tasks SET wanted = true WHERE task_id = '{second.task_id}'")
        assert await unrecorded(stream="syscall") == times(0, 10, 25, 30)


async def test_events_of_a_task(start_server: StartServer) -> None:
    """`task` selects the rows that this task recorded, and refuses a task that there is not."""
    one, two = Run(), Run()
    async with start_server() as server, lined(server.conninfo) as line:
        await line.send(one.batch(1, rows(101)), two.batch(1, rows(53, 101)))
        page = await server.get("events", "syscall", task=str(two.task_id), where="arg0 >= 110", limit=1000)
        assert {row["task_id"] for row in page["events"]} == {str(two.task_id)}
        assert sorted(row["arg0"] for row in page["events"]) == [*range(110, 154)]
        for path in ("events/syscall", "losses"):
            status, problem = await server.ask("GET", f"{path}?task={uuid.uuid4()}")
            assert (status, problem["errors"][0]["parameter"]) == (404, "task")
        assert (await server.ask("GET", "losses?stream=nonsense"))[0] == 404
        assert (await server.ask("GET", "losses?since=2026-01-02&until=2026-01-01"))[0] == 400
