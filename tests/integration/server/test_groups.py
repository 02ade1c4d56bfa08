"""Several probes on several machines, started as one; and the templates that name them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.server.running import Server, until
from tests.integration.server.stand_in_agent import StandInAgent
from tests.integration.server.test_enrolment import token_of
from tests.integration.server.test_members import agent_of

from scope_agentd.identity.join import join
from scope_agentd.identity.membership import Membership
from scope_catalogue.template import TEMPLATES

StartServer = Callable[..., Any]
PARTS: list[dict[str, Any]] = [
    {"probe": "syscalls", "options": {"mode": "summary"}, "where": "count > 1"},
    {"probe": "files", "options": {}, "where": None},
]


async def _joined(server: Server, tmp_path: Path, **labels: str) -> list[StandInAgent]:
    token = await token_of(server, uses=2, labels=labels)
    agents = []
    for name in ("one", "two"):
        await join(server.enrol, token, tmp_path / name)
        agents.append(agent_of(Membership(tmp_path / name), name))
    return agents


async def test_a_group_on_machines_with_labels(start_server: StartServer, tmp_path: Path) -> None:
    """Each machine with all the labels gets each part; one that has them later gets none. The group stops as one."""
    async with start_server() as server:
        one, two = await _joined(server, tmp_path, role="gpu", rack="r1")
        async with one.attending(server), two.attending(server), StandInAgent().attending(server):
            wish = {"parts": PARTS, "selector": {"role": "gpu", "rack": "r1"}, "target": {"comm": "python3"}}
            status, group = await server.ask("POST", "groups", json=wish)
            assert (status, group["refused"]) == (201, [])
            assert sorted((task["hostname"], task["probe"], task["state"]) for task in group["tasks"]) == [
                (name, probe, "running") for name in ("one", "two") for probe in ("files", "syscalls")
            ]
            assert {task["target"]["comm"] for task in group["tasks"]} == {"python3"}
            assert {task["group_id"] for task in group["tasks"]} == {group["group_id"]}
            alone = await server.start(node=one.machine_id)
            status, stopped = await server.ask("POST", f"groups/{group['group_id']}/stop")
            assert (status, {task["state"] for task in stopped["tasks"]}) == (200, {"stopped"})
            assert (await server.task(alone))["state"] == "running"
            assert (await server.ask("GET", f"groups/{group['group_id']}")) == (200, stopped)
            status, said = await server.ask("POST", "groups", json=wish | {"selector": {"role": "gpu", "rack": "r2"}})
            assert (status, said["errors"][0]["pointer"]) == (404, "#/selector")


async def test_a_machine_that_is_away_keeps_no_other(start_server: StartServer, tmp_path: Path) -> None:
    """Tasks of a machine that is away are pending; what an agent refuses is told, and the others run."""
    async with start_server() as server:
        one, two = await _joined(server, tmp_path, role="gpu")
        async with two.attending(server):
            pass
        await until(lambda: server.get("nodes"), lambda found: not any(node["connected"] for node in found["nodes"]))
        one.refuses["files"] = "this kernel has no such tracepoint"
        async with one.attending(server):
            status, group = await server.ask("POST", "groups", json={"parts": PARTS, "selector": {"role": "gpu"}})
            assert status == 201
            assert sorted((task["hostname"], task["probe"], task["state"]) for task in group["tasks"]) == [
                ("one", "syscalls", "running"),
                ("two", "files", "pending"),
                ("two", "syscalls", "pending"),
            ]
            (refused,) = group["refused"]
            assert (refused["hostname"], refused["probe"]) == ("one", "files")
            assert refused["reason"] == "this kernel has no such tracepoint"


async def test_a_wrong_definition_starts_nothing(start_server: StartServer) -> None:
    """If one part, the target or a machine is wrong, no task is made; the answer points at it."""
    async with start_server() as server, StandInAgent().attending(server):
        for change, pointer in (
            ({"parts": [*PARTS, {"probe": "nonsense"}]}, "#/parts/2/probe"),
            ({"parts": [{"probe": "files", "options": {"mode": "all"}}]}, "#/parts/0/options"),
            ({"parts": [*PARTS, {"probe": "files", "where": "rett < 0"}]}, "#/parts/2/where"),
            ({"nodes": ["stand-in", "nobody"]}, "#/nodes/1"),
            ({"target": {"pid": 0}}, "#/target"),
            ({"parts": []}, "#/parts"),
        ):
            status, said = await server.ask("POST", "groups", json={"parts": PARTS, "nodes": ["stand-in"]} | change)
            assert (status in (400, 404), said["errors"][0]["pointer"]) == (True, pointer), said
        named: dict[str, Any] = {"parts": PARTS, "nodes": ["stand-in"]}
        for wish in (
            {},
            named | {"template": "slow"},
            named | {"selector": {"role": "gpu"}},
            {"parts": PARTS, "selector": {}},
            {"parts": [{**PARTS[0], "nonsense": 1}]},
        ):
            assert (await server.ask("POST", "groups", json=wish))[0] == 400, wish
        assert (await server.get("tasks"))["tasks"] == []


async def test_templates(start_server: StartServer) -> None:
    """Templates come with SCOPE, or are people's own: kept, replaced, started and deleted by name."""
    async with start_server() as server, StandInAgent().attending(server):
        given = [one["name"] for one in (await server.get("templates"))["templates"]]
        assert given == sorted(one.name for one in TEMPLATES)
        for meaning in ("mine", "mine, too"):
            status, kept = await server.ask(
                "POST", "templates", json={"name": "my-own", "meaning": meaning, "parts": PARTS}
            )
            assert (status, kept["meaning"], kept["parts"]) == (201, meaning, PARTS)
        status, group = await server.ask("POST", "groups", json={"template": "my-own", "nodes": ["stand-in"]})
        started = {task["probe"]: task["where"] for task in group["tasks"]}
        assert (status, started) == (201, {"files": None, "syscalls": "count > 1"})
        assert (await server.ask("POST", "templates/my-own/delete"))[0] == 200
        assert [one["name"] for one in (await server.get("templates"))["templates"]] == given
        for path, body, status in (
            ("templates", {"name": "slow", "parts": PARTS}, 400),
            ("templates", {"name": "A b", "parts": PARTS}, 400),
            ("templates", {"name": "x", "parts": [{"probe": "nonsense"}]}, 400),
            ("templates/slow/delete", None, 400),
            ("templates/my-own/delete", None, 404),
            ("groups", {"template": "slo", "nodes": ["stand-in"]}, 404),
        ):
            assert (await server.ask("POST", path, json=body))[0] == status, path
        assert (await server.task(group["tasks"][0]["task_id"]))["state"] == "running"
