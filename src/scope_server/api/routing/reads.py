"""Answers of routes that only read what was recorded: from a replica of the database where one is new enough.

A call reads from one database only. The primary is asked what a replica cannot answer, or does not know of.
"""

from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web
from pydantic import BaseModel

from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Recorded, Streamed
from scope_server.api.routing.route import Route
from scope_server.errors import StoreUnavailable, UnknownThing
from scope_server.store.reading.replica import Replica
from scope_server.store.reading.replicas import Replicas


@dataclass(frozen=True)
class Sources:
    """The replicas, and what stands for the application's objects in a call that reads from one of them."""

    replicas: Replicas
    objects: Mapping[Replica, Mapping[web.AppKey[Any], Any]]


SOURCES = web.AppKey("sources", Sources)


async def answered(route: Route, call: Call, asked: Mapping[str, BaseModel], fresh: bool) -> tuple[Answer, float]:
    """The handler's answer, and how many seconds old what it is made of may be: 0 of the primary.

    Args:
        fresh: only the primary may answer.
    """
    sources = call[SOURCES]
    replica = None if fresh or not route.lags(asked.get("query")) else sources.replicas.choose()
    if replica is None:
        return await route.handler(call, **asked), 0.0
    age_s = replica.age_s or 0.0
    try:
        answer = await replica.ask(_begun(route.handler(replace(call, instead=sources.objects[replica]), **asked)))
    except (StoreUnavailable, UnknownThing):  # it may be known since
        replica.failures += 1
        return await route.handler(call, **asked), 0.0
    replica.answers += 1
    age_s = round(age_s, 3)
    return answer.model_copy(update={"age_s": age_s}) if isinstance(answer, Recorded) else answer, age_s


async def _begun(answering: Awaitable[Answer]) -> Answer:
    """The answer; if it is streamed, it has a first piece."""
    answer = await answering
    if isinstance(answer, Streamed):
        first = await anext(answer.pieces, b"")
        return answer.model_copy(update={"pieces": _with(first, answer.pieces)})
    return answer


async def _with(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece
