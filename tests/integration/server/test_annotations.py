"""What people and programs say about a moment or a time."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import grpc
import psycopg
import pytest
from tests.integration.server.running import Server
from tests.integration.server.stand_in_agent import StandInAgent

from scope_proto.scope.v1 import session_pb2
from scope_proto.scope.v1.session_pb2_grpc import SessionStub
from scope_server.session import service
from scope_server.session.annotate import RATE
from scope_server.store.retention import Closed, closed

StartServer = Callable[..., Any]
NOON = "2026-01-31T12:00:00Z"


async def _found(server: Server, **query: str) -> list[str]:
    return [one["text"] for one in (await server.get("annotations", **query))["annotations"]]


async def test_of_people(start_server: StartServer) -> None:
    """They are found by time, machine and label, newest first, and deleted."""
    async with start_server() as server, StandInAgent().attending(server):
        for body in (
            {"text": "a time", "time": NOON, "until": "2026-01-31T13:00:00Z", "labels": {"epoch": "3"}},
            {"text": "a moment", "time": "2026-01-31T12:30:00Z", "node": "stand-in"},
            {"text": "now"},
        ):
            status, made = await server.ask("POST", "annotations", json=body)
            assert (status, made["text"], made["pid"]) == (201, body["text"], None)
            assert made["hostname"] == body.get("node")
        assert await _found(server) == ["now", "a moment", "a time"]
        assert await _found(server, machine="stand-in") == ["now", "a moment", "a time"]  # or about all machines
        assert await _found(server, label="epoch=3") == ["a time"]
        assert await _found(server, since="2026-01-31T12:45:00Z", until="2026-02-01T00:00:00Z") == ["a time"]
        assert await _found(server, until=NOON) == []
        assert (await server.ask("POST", f"annotations/{made['id']}/delete"))[0] == 200
        assert (await server.ask("POST", f"annotations/{made['id']}/delete"))[0] == 404
        assert await _found(server) == ["a moment", "a time"]
        assert server.query("SELECT text, hostname FROM scope.annotations WHERE until IS NULL") == [
            ("a moment", "stand-in")
        ]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"text": ""}, "#/text"),
        ({"text": "x" * 501}, "#/text"),
        ({"time": NOON, "until": "2026-01-31T11:00:00Z"}, "#/until"),
        ({"labels": {"a b": "c"}}, "#/labels/a b"),
        ({"node": "nobody"}, "#/node"),
        ({"time": "soon"}, "#/time"),
        ({"until": {}}, "#/until"),
    ],
)
async def test_what_is_refused(start_server: StartServer, change: dict[str, Any], pointer: str) -> None:
    """The answer names the field; nothing is stored."""
    async with start_server() as server:
        status, said = await server.ask("POST", "annotations", json={"text": "said"} | change)
        assert (status in (400, 404), [one["pointer"] for one in said["errors"]]) == (True, [pointer]), said
        assert await _found(server) == []


async def test_of_programs(start_server: StartServer) -> None:
    """An agent's are stored once, at the times of the server's clock, whatever the machine's clock says."""
    agent = StandInAgent()
    ids = [uuid.uuid4().bytes for _ in range(3)]
    sent = session_pb2.AnnotateRequest(
        annotations=[
            session_pb2.Annotation(
                id=one, utc_ns=7 * 10**9 + n, text=f"step {n}\0", labels={"epoch": "3"}, pid=n, comm="python3"
            )
            for n, one in enumerate(ids)
        ],
        utc_ns=17 * 10**9,  # a machine whose clock is in 1970
    )
    async with start_server() as server, agent.attending(server) as channel:
        stub: Any = SessionStub(channel)
        for _ in range(2):
            await stub.Annotate(sent)
        found = (await server.get("annotations", label="epoch=3"))["annotations"]
        assert sorted((one["text"], one["pid"], one["comm"], one["hostname"]) for one in found) == [
            ("step 0", None, "python3", "stand-in"),
            ("step 1", 1, "python3", "stand-in"),
            ("step 2", 2, "python3", "stand-in"),
        ]
        (ago,) = server.query("SELECT extract(epoch FROM now() - min(time))::float8 FROM scope.annotations")
        assert 10 <= ago[0] < 100
        sent.annotations[0].id = b"short"
        with pytest.raises(grpc.aio.AioRpcError, match="a UUID has 16 bytes"):
            await stub.Annotate(sent)


async def test_a_machine_says_no_more_than_an_agent_would(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message beyond the machine's limit is refused as a whole; an agent keeps what is refused, and tries again."""
    monkeypatch.setattr(service, "RATE", replace(RATE, per_minute=0.01, burst=5))
    async with start_server() as server, StandInAgent().attending(server) as channel:
        stub: Any = SessionStub(channel)
        for count in (3, 2, 1):
            said = [session_pb2.Annotation(id=uuid.uuid4().bytes, text="step") for _ in range(count)]
            if count > 1:
                await stub.Annotate(session_pb2.AnnotateRequest(annotations=said))
                continue
            with pytest.raises(grpc.aio.AioRpcError, match="too many attempts") as told:
                await stub.Annotate(session_pb2.AnnotateRequest(annotations=said))
            assert told.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert server.query("SELECT count(*) FROM scope.annotations") == [(5,)]


async def test_old_ones_and_those_beyond_their_number_go(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay as long as rows of their time may; of too many of one machine, or of people, the newest stay."""
    monkeypatch.setattr(closed, "MOST_ANNOTATIONS", 3)
    async with start_server() as server, StandInAgent().attending(server):
        for number in range(5):
            assert (await server.ask("POST", "annotations", json={"text": f"{number}"}))[0] == 201
        for text, body in (("old", {"time": NOON}), ("of a machine", {"node": "stand-in"})):
            assert (await server.ask("POST", "annotations", json={"text": text, **body}))[0] == 201
        old = "UPDATE store.annotations SET made = now() - interval '20 days' WHERE text IN ('old', 'of a machine')"
        server.query(old)
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            Closed(30).step(connection)
        assert await _found(server) == ["of a machine", "4", "3", "2"]
