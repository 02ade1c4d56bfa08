"""Whether the server can read and write, checked now."""

from pydantic import Field

from scope_server.accounts.caller import Role
from scope_server.api.context import BACKLOG, DATABASE, FLEET, REGISTER, SESSIONS, WRITERS
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer
from scope_server.api.routing.reads import SOURCES
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.errors import NotHealthy, StoreUnavailable
from scope_server.store.reading.replicas import Replicas

ROUTES = Routes()

CHECK_S = 3.0


class Health(Answer):
    """The server works; otherwise the answer is a problem document."""

    healthy: bool


class Replica(Answer):
    """A replica of the database that answers queries."""

    name: str = Field(description="host and port")
    state: str = Field(description="`ok`, or why the primary answers in its place")
    age_s: float | None = Field(description="how old its data may be, in seconds; null: older than this server's start")


class Server(Answer):
    """The state of the server's parts: `ok`, or what is wrong."""

    healthy: bool = Field(description="all parts are ok")
    database: str
    replicas: list[Replica] = Field(description="of the database; one that is not ok makes no server unhealthy")
    ingest: str
    sessions: str
    redis: str = Field(description="also the way to the writers, if this server has agents; `ok` if it is alone")
    waiting_bytes: int = Field(description="bytes that wait to be written")
    oldest_waiting_s: float = Field(description="how long the oldest record has waited")
    agents: int = Field(description="connected agents")
    refused_peers: dict[str, int] = Field(description="by reason")


@ROUTES.get(f"{PREFIX}/health", None)
async def get_health(call: Call) -> Health:
    """Whether the server works: the database answers and can be written to, and agents are admitted."""
    if any([await _database(call), await call[WRITERS].check(CHECK_S), call[REGISTER].unknown, call[FLEET].check()]):
        raise NotHealthy("the server does not work now; with a login, /api/v1/server says why")
    return Health(healthy=True)


@ROUTES.get(f"{PREFIX}/server", Role.VIEWER)
async def get_server(call: Call) -> Server:
    """The state of each part of the server, what waits to be written, and refused peers by reason."""
    database, ingest = await _database(call), await call[WRITERS].check(CHECK_S)
    sessions, backlog, fleet = call[REGISTER].unknown, call[BACKLOG], call[FLEET]
    return Server(
        healthy=not (database or ingest or sessions or fleet.check()),
        database=database or "ok",
        replicas=_replicas(call[SOURCES].replicas),
        ingest=ingest or "ok",
        sessions=sessions or "ok",
        redis=fleet.check() or fleet.away() or "ok",
        waiting_bytes=backlog.held_bytes,
        oldest_waiting_s=round(backlog.oldest_s, 3),
        agents=len(call[SESSIONS].all()),
        refused_peers={reason.value: count for reason, count in call[REGISTER].refusals.counts.items()},
    )


def _replicas(replicas: Replicas) -> list[Replica]:
    return [
        Replica(
            name=each.name,
            state=replicas.trouble(each) or "ok",
            age_s=None if each.age_s is None else round(each.age_s, 3),
        )
        for each in replicas.all
    ]


async def _database(call: Call) -> str:
    """Why the database does not answer; empty if it does."""
    try:
        await call[DATABASE].fetch("ping")
    except StoreUnavailable as error:
        return str(error)
    return ""
