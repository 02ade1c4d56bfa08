"""Tasks through the API: wanted tasks stay wanted and their states are shown, also after restarts of any part."""

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.integration.server.running import Server, until
from tests.integration.server.stand_in_agent import FAILED, MACHINE, RUNNING, STOPPED, StandInAgent

from scope_proto.scope.v1 import control_pb2, task_pb2
from scope_server.session import desired

StartServer = Callable[..., Any]


async def known(server: Server, agent: StandInAgent) -> None:
    """Connects an agent once, so that the server knows it."""
    async with agent.attending(server):
        pass
    await until(lambda: server.get("nodes"), lambda found: not found["nodes"][0]["connected"])


async def test_a_task_is_answered_when_it_records(start_server: StartServer) -> None:
    """A start is answered with the running task; the answer and the agent's message have the requested definition."""
    agent = StandInAgent()
    wanted = {
        "probe": "syscalls",
        "target": {"comm": "python3"},
        "options": {"mode": "summary", "interval_ms": 500},
        "duration": 3600.5,
    }
    async with start_server() as server, agent.attending(server):
        status, task = await server.ask("POST", "tasks", json=wanted)
        assert (status, task["state"], task["wanted"], task["origin"]) == (201, "running", True, "server")
        assert (task["node"], task["hostname"], task["probe"]) == (MACHINE, "stand-in", "syscalls")
        assert (task["target"], task["options"], task["duration"]) == (
            {"comm": "python3"},
            {"mode": "summary", "interval_ms": 500},
            3600.5,
        )
        (run,) = task["runs"]
        assert (run["state"], run["end"], run["attach_point"]) == ("running", None, "nowhere")
        assert datetime.fromisoformat(task["deadline"]) > datetime.now(UTC)
        (told,) = agent.wishes[-1].tasks
        assert (told.task_id, told.definition.duration.ToNanoseconds()) == (task["task_id"], 3_600_500_000_000)


async def test_a_filter_goes_to_the_agent(start_server: StartServer) -> None:
    """A task's filter is answered and in the agent's message as it was given; one that suits none of the streams that
    the task records is refused, with where and why."""
    agent = StandInAgent()
    where = "ret < 0 and duration > 1ms"
    async with start_server() as server, agent.attending(server):
        status, task = await server.ask("POST", "tasks", json={"probe": "syscalls", "where": where})
        assert (status, task["where"]) == (201, where)
        (told,) = agent.wishes[-1].tasks
        assert told.definition.where == where
        for wrong, said in (
            ({"where": "rett < 0"}, "no column 'rett'"),
            ({"where": "ret <"}, "a value is missing"),
            ({"where": "name = opnat"}, "did you mean 'openat'"),
            ({"where": "ret < 0", "options": {"mode": "summary"}}, "no column 'ret'"),
            ({"where": ""}, "at least 1 character"),
            ({"where": "x" * 4097}, "at most 4096 characters"),
        ):
            status, problem = await server.ask("POST", "tasks", json={"probe": "syscalls", **wrong})
            assert (status, problem["errors"][0]["pointer"]) == (400, "#/where"), problem
            assert said in problem["errors"][0]["detail"]
        assert len((await server.get("tasks"))["tasks"]) == 1


async def test_an_older_agent_gets_no_task_with_a_filter(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that would record all rows gets only the other tasks; the reason is shown. A newer one gets it then."""
    monkeypatch.setattr(desired, "ANSWER_S", 1.0)
    agent = StandInAgent()
    agent.takes_where = False
    async with start_server() as server:
        async with agent.attending(server):
            _, task = await server.ask("POST", "tasks", json={"probe": "syscalls", "where": "ret < 0"})
            assert (task["state"], "older than tasks with a filter" in task["reason"]) == ("pending", True)
            monkeypatch.undo()
            _, other = await server.ask("POST", "tasks", json={"probe": "syscalls"})
            assert [told.task_id for told in agent.wishes[-1].tasks] == [other["task_id"]]
        agent.takes_where = True
        async with agent.attending(server):
            await until(lambda: server.task(task["task_id"]), lambda found: found["state"] == "running")


async def test_a_probe_that_only_the_agent_knows(start_server: StartServer) -> None:
    """A newer agent's probe can be started once the agent has told it; the agent checks the options."""
    agent = StandInAgent()
    agent.probes = control_pb2.ListProbesResponse(probes=[control_pb2.Probe(name="oracle", available=True)])
    wanted = {"probe": "oracle", "options": {"depth": 3, "words": ["a", "b"]}}
    async with start_server() as server, agent.attending(server):
        status, problem = await server.ask("POST", "tasks", json=wanted)
        assert (status, "no probe named 'oracle'" in problem["detail"]) == (400, True)
        await until(lambda: server.ask("GET", "probes"), lambda answer: answer[0] == 200)
        status, task = await server.ask("POST", "tasks", json=wanted)
        assert (status, task["probe"], task["options"]) == (201, "oracle", {"depth": 3, "words": ["a", "b"]})
        (told,) = agent.wishes[-1].tasks
        assert told.definition.probe == "oracle"


async def test_what_a_run_may_not_have_seen_is_told(start_server: StartServer) -> None:
    """A task and its run show the agent's notes: at most 16, without NUL characters."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server):
        _, task = await server.ask("POST", "tasks", json={"probe": "cuda"})
        assert task["notes"] == []
        agent.tasks[task["task_id"]].run.notes.extend(["late", "\0lost", *("more" for _ in range(20))])
        agent.change(task["task_id"], RUNNING)
        shown = await until(lambda: server.get("tasks"), lambda found: bool(found["tasks"][0]["notes"]))
        (told,) = shown["tasks"]
        assert told["notes"] == told["runs"][0]["notes"] == ["late", "lost", *("more" for _ in range(14))]
        assert server.query("SELECT notes[2] FROM scope.runs") == [("lost",)]


async def test_a_refused_start_is_told_and_not_wanted_any_more(start_server: StartServer) -> None:
    """If the agent refuses a task, the answer has its reason, and the task is no longer wanted."""
    agent = StandInAgent()
    agent.refusal = "no process has pid 4711; `ps` lists running processes"
    async with start_server() as server, agent.attending(server):
        status, problem = await server.ask("POST", "tasks", json={"probe": "syscalls", "target": {"pid": 4711}})
        assert (status, problem["detail"]) == (400, agent.refusal)
        (task,) = (await server.get("tasks"))["tasks"]
        assert (task["wanted"], task["reason"]) == (False, agent.refusal)
        await until(lambda: server.task(task["task_id"]), lambda found: found["state"] == "failed")
        assert (await server.get("tasks", state="active"))["tasks"] == []
        await until(lambda: _last_wish(agent), lambda wish: not wish.tasks)


async def _last_wish(agent: StandInAgent) -> Any:
    return agent.wishes[-1]


async def test_a_task_waits_for_a_machine_that_is_away(start_server: StartServer) -> None:
    """A task for a disconnected agent, also if it is the only one, is pending with a reason, and starts when the agent
    connects."""
    agent = StandInAgent()
    async with start_server() as server:
        await known(server, agent)
        for named in ({}, {"node": "stand-in"}):
            status, task = await server.ask("POST", "tasks", json={"probe": "syscalls", **named})
            assert (status, task["state"], task["reason"]) == (201, "pending", "the agent is not connected")
        async with agent.attending(server):
            await until(lambda: server.task(task["task_id"]), lambda found: found["state"] == "running")


async def test_a_task_for_nobody_is_refused(start_server: StartServer) -> None:
    """A task without a node needs exactly one agent; a task for an unknown node is refused. If none of several agents
    is connected, the refusal says when the last was heard."""
    async with start_server() as server:
        status, problem = await server.ask("POST", "tasks", json={"probe": "syscalls"})
        assert (status, "no agent is connected" in problem["detail"]) == (503, True)
        status, problem = await server.ask("POST", "tasks", json={"probe": "syscalls", "node": "nobody"})
        assert (status, "'nobody'" in problem["detail"]) == (404, True)
        async with StandInAgent().attending(server), StandInAgent("other", "f" * 32).attending(server):
            status, problem = await server.ask("POST", "tasks", json={"probe": "syscalls"})
            assert (status, "name one" in problem["detail"]) == (400, True)
        await until(lambda: server.get("nodes"), lambda found: not any(node["connected"] for node in found["nodes"]))
        status, problem = await server.ask("POST", "tasks", json={"probe": "syscalls"})
        assert (status, " was last heard " in problem["detail"]) == (503, True)


async def test_a_stop_is_answered_when_the_task_has_ended(start_server: StartServer) -> None:
    """A stop is answered with the stopped task; a second stop changes nothing."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server):
        task_id = await server.start()
        for _ in range(2):
            task = await server.stop(task_id)
            assert (task["state"], task["wanted"], task["runs"][0]["end"]) == ("stopped", False, "request")
        assert (await server.ask("POST", f"tasks/{uuid.uuid4()}/stop"))[0] == 404


async def test_a_stop_reaches_a_machine_that_is_away(start_server: StartServer) -> None:
    """A stop for a disconnected agent is answered with `stopping` and why; the task stops when the agent connects."""
    agent = StandInAgent()
    async with start_server() as server:
        async with agent.attending(server):
            task_id = await server.start()
        await until(lambda: server.get("nodes"), lambda found: not found["nodes"][0]["connected"])
        task = await server.stop(task_id)
        assert (task["state"], task["wanted"]) == ("stopping", False)
        assert "the agent is not connected" in task["reason"]
        async with agent.attending(server):
            await until(lambda: server.task(task_id), lambda found: found["state"] == "stopped")


async def test_a_machine_that_is_away_may_begin_a_task_again(start_server: StartServer) -> None:
    """A task whose last run has ended is `stopping`, too, until its agent has heard that it is no longer wanted, since
    the agent may begin another run. A task that no agent was told of stops at once."""
    agent = StandInAgent()
    async with start_server() as server:
        async with agent.attending(server):
            task_id = await server.start()
            agent.change(task_id, STOPPED, end=task_pb2.TASK_END_SHUTDOWN)
            await until(lambda: server.task(task_id), lambda found: found["runs"][0]["state"] == "stopped")
        await until(lambda: server.get("nodes"), lambda found: not found["nodes"][0]["connected"])
        never_told = (await server.ask("POST", "tasks", json={"probe": "sched"}))[1]["task_id"]
        assert (await server.stop(never_told))["state"] == "stopped"
        task = await server.stop(task_id)
        assert (task["state"], task["reason"]) == (
            "stopping",
            "the agent is not connected; it stops the task when it connects",
        )
        agent.begin(task_id, agent.tasks[task_id].definition, task_pb2.ORIGIN_SERVER)
        async with agent.attending(server):
            task = await until(lambda: server.task(task_id), lambda found: found["state"] == "stopped")
            assert [run["end"] for run in task["runs"]] == ["request", "shutdown"]
        async with agent.attending(server):
            assert (await server.task(task_id))["state"] == "stopped"


async def test_what_is_wanted_survives_restarts(start_server: StartServer) -> None:
    """A wanted task survives a restart of the server with the same run, and one of the agent with a new run."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server):
        task_id = await server.start()
    async with start_server() as server:
        async with agent.attending(server):
            task = await until(lambda: server.task(task_id), lambda found: found["state"] == "running")
            assert len(task["runs"]) == 1
        agent.restart()
        async with agent.attending(server):
            task = await until(lambda: server.task(task_id), lambda found: len(found["runs"]) == 2)
            assert [run["state"] for run in task["runs"]] == ["running", "failed"]
            assert task["runs"][1]["end"] == "killed"
    numbers = [wish.number for wish in agent.wishes]
    assert numbers == sorted(set(numbers))


async def test_time_without_an_agent_is_told(start_server: StartServer) -> None:
    """While a wanted task has no run, and afterwards, its notes say from when to when nothing was recorded, and the
    answer about its events has a loss of that time and of an unknown count; other times and streams have none."""
    agent = StandInAgent()
    async with start_server() as server:
        async with agent.attending(server):
            task_id = await server.start()
            run = agent.change(task_id, STOPPED, end=task_pb2.TASK_END_SHUTDOWN).run
            run.accounts["syscall"].emitted = 7
            (note,) = (await until(lambda: server.task(task_id), lambda found: found["notes"]))["notes"]
            stopped = f"{run.ended.ToDatetime():%Y-%m-%d %H:%M:%S}"
            assert note == f"not recorded since {stopped} UTC: its agent was stopped"
        agent.restart()
        async with agent.attending(server):
            task = await until(lambda: server.task(task_id), lambda found: found["state"] == "running")
        again = agent.tasks[task_id].run.started.ToDatetime(UTC)
        assert task["notes"] == [f"not recorded from {stopped} to {again:%Y-%m-%d %H:%M:%S} UTC: its agent was stopped"]
        *_, loss = (await server.get("events", "syscall"))["losses"]
        assert (loss["place"], loss["reason"], loss["count"]) == ("agent", "not_recorded", None)
        assert (loss["task_id"], loss["machine_id"], loss["run_ended_by"]) == (task_id, MACHINE, "shutdown")
        assert datetime.fromisoformat(loss["since"]) == run.ended.ToDatetime(UTC)
        assert datetime.fromisoformat(loss["until"]) == again
        for stream, given in (("syscall_summary", {}), ("syscall", {"since": again + timedelta(seconds=1)})):
            query = {name: moment.isoformat() for name, moment in given.items()}
            losses = (await server.get("events", stream, **query))["losses"]
            assert [loss for loss in losses if loss["reason"] == "not_recorded"] == []
        await server.stop(task_id)


async def test_a_task_stopped_without_its_agent(start_server: StartServer) -> None:
    """What was not recorded until the stop is told, if the agent was away then; a task that ran until it was stopped
    has no such time."""
    agent = StandInAgent()
    async with start_server() as server:
        async with agent.attending(server):
            task_id, other = await server.start(), await server.start()
            assert (await server.stop(other))["state"] == "stopped"
            run = agent.change(task_id, STOPPED, end=task_pb2.TASK_END_SHUTDOWN).run
            await until(lambda: server.task(task_id), lambda found: found["notes"])
        await until(lambda: server.get("nodes"), lambda found: not found["nodes"][0]["connected"])
        (note,) = (await server.stop(task_id))["notes"]
        began = f"{run.ended.ToDatetime():%Y-%m-%d %H:%M:%S}"
        assert note.startswith(f"not recorded from {began} to 20") and note.endswith(" UTC: its agent was stopped")
        assert (await server.task(other))["notes"] == []


async def test_a_wish_is_said_again_above_what_the_agent_knows(start_server: StartServer) -> None:
    """A message number is above the one that the agent knows, even if the server's clock was set back."""
    agent = StandInAgent()
    async with start_server() as server:
        async with agent.attending(server):
            await server.start()
        agent.wishes[-1].number += 10**15
        ahead = agent.wishes[-1].number
        async with agent.attending(server):
            assert agent.wishes[-1].number > ahead


async def test_the_machines_own_tasks_are_its_own(start_server: StartServer) -> None:
    """A machine's own tasks are shown, survive server restarts, and can be stopped only on the machine."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server):
        task_id = agent.begin_own()
        task = await until(lambda: server.ask("GET", f"tasks/{task_id}"), lambda answer: answer[0] == 200)
        assert (task[1]["origin"], task[1]["wanted"]) == ("agent", True)
        status, problem = await server.ask("POST", f"tasks/{task_id}/stop")
        assert (status, "AgentControl/StopTask" in problem["detail"]) == (409, True)
        assert agent.tasks[task_id].run.state == RUNNING
    async with start_server() as server, agent.attending(server):
        await until(lambda: server.task(task_id), lambda found: found["state"] == "running" and found["wanted"])
        assert not any(wish.tasks for wish in agent.wishes)
        agent.change(task_id, STOPPED, end=task_pb2.TASK_END_REQUEST)
        await until(lambda: server.task(task_id), lambda found: not found["wanted"] and found["state"] == "stopped")
        assert (await server.stop(task_id))["state"] == "stopped"


async def test_an_own_task_that_its_agent_forgot_is_over(start_server: StartServer) -> None:
    """A machine's own task that is missing in the agent's first report has failed, and is no longer wanted."""
    agent = StandInAgent()
    async with start_server() as server:
        async with agent.attending(server):
            task_id = agent.begin_own()
            await until(lambda: server.ask("GET", f"tasks/{task_id}"), lambda answer: answer[0] == 200)
        agent.tasks.clear()
        async with agent.attending(server):
            await until(lambda: server.task(task_id), lambda found: not found["wanted"] and found["state"] == "failed")


async def test_a_failure_keeps_a_task_wanted(start_server: StartServer) -> None:
    """A failed task stays wanted and shows its reason and next try, until it runs again."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server):
        task_id = await server.start()
        agent.tasks[task_id].next_try.GetCurrentTime()
        agent.change(task_id, FAILED, end=task_pb2.TASK_END_FAILURE, error="no descriptors")
        task = await until(lambda: server.task(task_id), lambda found: found["state"] == "failed")
        assert (task["wanted"], task["reason"]) == (True, "no descriptors")
        assert task["next_try"]
        assert [one["task_id"] for one in (await server.get("tasks", state="active"))["tasks"]] == [task_id]
        assert [one.task_id for one in agent.wishes[-1].tasks] == [task_id]
        agent.begin(task_id, agent.tasks[task_id].definition, task_pb2.ORIGIN_SERVER)
        task = await until(lambda: server.task(task_id), lambda found: found["state"] == "running")
        assert (task["reason"], task["next_try"], len(task["runs"])) == (None, None, 2)


async def test_a_lease_ends_a_task(start_server: StartServer) -> None:
    """A task that its agent has stopped at the end of its duration is no longer wanted."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server):
        task_id = await server.start(duration=3600)
        agent.change(task_id, STOPPED, end=task_pb2.TASK_END_LEASE)
        await until(lambda: server.task(task_id), lambda found: not found["wanted"] and found["state"] == "stopped")
        await until(lambda: _last_wish(agent), lambda wish: not wish.tasks)


@pytest.mark.parametrize("ahead_h", [-2, 0, 2])
async def test_a_deadline_is_the_servers_to_keep_too(start_server: StartServer, ahead_h: int) -> None:
    """A task past its deadline is not sent to an agent that connects later, whatever the agent's clock shows."""
    agent = StandInAgent()
    agent.ahead_ns = ahead_h * 3600 * 10**9
    async with start_server() as server:
        async with agent.attending(server):
            over, going_on = await server.start(duration=1), await server.start(duration=3600)
        await until(lambda: server.task(over), lambda found: not found["wanted"])
        agent.tasks.clear()
        async with agent.attending(server):
            assert [one.task_id for one in agent.wishes[-1].tasks] == [going_on]
            left_ns = agent.wishes[-1].tasks[0].deadline.ToNanoseconds() - agent.hello().utc_ns
            assert 3000 * 10**9 < left_ns <= 3600 * 10**9


async def test_an_agent_that_does_not_answer_is_not_waited_for_long(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the agent does not react to a start or stop in time, the answer has the current state."""
    monkeypatch.setattr(desired, "ANSWER_S", 0.5)
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server):
        task_id = await server.start()
        monkeypatch.setattr(agent, "_obey", lambda _: None)
        assert (await server.stop(task_id))["state"] == "stopping"
        status, task = await server.ask("POST", "tasks", json={"probe": "sched"})
        assert (status, task["state"]) == (201, "pending")
        assert task["reason"].startswith("its agent has not started it yet")


async def test_a_wish_has_room_for_so_many_tasks(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that does not fit into the message of all wanted tasks is refused; a stopped task makes room."""
    monkeypatch.setattr(desired, "_WISH_BYTES", 60)
    async with start_server() as server, StandInAgent().attending(server):
        task_id = await server.start()
        status, problem = await server.ask("POST", "tasks", json={"probe": "syscalls", "target": {"comm": "x"}})
        assert (status, "stop some" in problem["detail"]) == (400, True)
        await server.stop(task_id)
        await server.start()


async def test_only_the_newest_runs_are_shown(start_server: StartServer) -> None:
    """A task shows its 20 newest runs, newest first; its counts include all runs."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server):
        task_id = await server.start()
        runs = []
        for number in range(23):
            agent.begin(task_id, agent.tasks[task_id].definition, task_pb2.ORIGIN_SERVER)
            run = agent.tasks[task_id].run
            run.accounts["syscall"].emitted, run.sent_bytes = 7, 11
            agent.change(task_id, RUNNING)
            runs.append(run.run_id)
            await until(
                lambda: server.task(task_id),
                lambda found, number=number: found["streams"] and found["streams"][0]["emitted"] == 7 * (number + 1),
            )
        task = await server.task(task_id)
        assert [run["run_id"] for run in task["runs"]] == runs[:-21:-1]
        assert task["sent_bytes"] == 23 * 11


async def test_no_sum_is_too_large(start_server: StartServer) -> None:
    """Counts whose sum exceeds 64 bits are shown, and do not fail the query."""
    agent, most = StandInAgent(), (1 << 63) - 1
    async with start_server() as server, agent.attending(server):
        task_id = await server.start()
        run = agent.tasks[task_id].run.run_id
        for reason in ("one", "two", "three"):
            server.query(
                "INSERT INTO store.losses SELECT id, 'syscall', 'ring', %s, now(), now(), now(), %s FROM store.runs"
                " WHERE run_id = %s",
                reason,
                most,
                run,
            )
            server.query(
                "INSERT INTO store.accounts (run, stream, emitted, stored)"
                " SELECT id, 'syscall' || %s, %s, 0 FROM store.runs WHERE run_id = %s",
                reason,
                most,
                run,
            )
        server.query("UPDATE store.losses SET stream = 'syscallone'")
        found = (await server.get("tasks"))["tasks"][0]["streams"]
        assert sum(loss["count"] for stream in found for loss in stream["lost"]) == 3 * most
        assert sum(stream["under_way"] for stream in found) == 3 * most


async def test_tasks_are_listed_by_state(start_server: StartServer) -> None:
    """Tasks are listed newest first, and by state; `active` excludes stopped tasks."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server):
        first, second = await server.start(), await server.start(target={"comm": "x"})
        await server.stop(first)

        async def listed(state: str | None) -> list[str]:
            return [task["task_id"] for task in (await server.get("tasks", state=state))["tasks"]]

        assert await listed(None) == [second, first]
        assert await listed("active") == [second]
        assert await listed("running") == [second]
        assert await listed("stopped") == [first]
        assert await listed("failed") == []


async def test_what_an_agent_can_record_is_answered_at_once(start_server: StartServer) -> None:
    """The API answers with the probes and the features of the host that the agent has told, and when it tried them;
    before the first time, it says that the agent tries them. The last report stays when the agent is away or another
    one has come, and says so. Without an agent that ever told, it says so."""
    agent = StandInAgent()
    agent.ahead_ns = 3600 * 10**9
    feature = control_pb2.Feature(name="kernel BTF", available=True, reason="programs can adapt to this kernel")
    trial = control_pb2.Trial(option="mode=summary", reason="no")
    agent.probes = control_pb2.ListProbesResponse(
        probes=[
            control_pb2.Probe(name="syscalls", available=True, unseen=["io_uring submissions"], tried=[trial]),
            control_pb2.Probe(name="gpu", reason="no GPU", no_device=True),
        ],
        host=[feature],
    )
    agent.probes.examined.FromNanoseconds(time.time_ns() + agent.ahead_ns)
    async with start_server() as server:
        status, problem = await server.ask("GET", "probes")
        assert (status, "no agent is connected" in problem["detail"]) == (503, True)
        async with agent.attending(server):
            status, problem = await server.ask("GET", "probes", params={"node": "stand-in"})
            assert (status, "has begun to try its probes" in problem["detail"]) == (503, True)
            _, told = await until(lambda: server.ask("GET", "probes"), lambda answer: answer[0] == 200)
            shown = [[probe[name] for name in ("name", "available", "no_device", "unseen")] for probe in told["probes"]]
            assert shown == [["syscalls", True, False, ["io_uring submissions"]], ["gpu", False, True, []]]
            assert told["probes"][0]["tried"] == [{"option": "mode=summary", "reason": "no"}]
            (host,) = told["host"]
            assert (host["name"], host["available"], host["reason"]) == (feature.name, True, feature.reason)
            assert (told["connected"], told["current"]) == (True, True)
            assert abs(datetime.fromisoformat(told["examined"]) - datetime.now(UTC)) < timedelta(minutes=30)
            assert await server.get("probes", node="stand-in") == told
        await until(lambda: server.get("nodes"), lambda found: not found["nodes"][0]["connected"])
        _, kept = await until(
            lambda: server.ask("GET", "probes", params={"node": MACHINE}), lambda answer: answer[0] == 200
        )
        assert (kept["connected"], kept["current"]) == (False, False)
        agent.probes = None
        async with agent.attending(server):
            waiting = await server.get("probes", node=MACHINE)
        assert (waiting["connected"], waiting["current"]) == (True, False)
        # By then, the clocks were compared again.
        for report in (kept, waiting):
            assert [report[name] for name in ("probes", "host")] == [told[name] for name in ("probes", "host")]
        assert abs(datetime.fromisoformat(kept["examined"]) - datetime.now(UTC)) < timedelta(minutes=30)
