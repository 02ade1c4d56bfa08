"""A route: all that is declared of a resource. Validation, OpenAPI, docs, clients and tests of roles come from it."""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel

from scope_server.accounts.caller import Role
from scope_server.api.routing.models import Answer, Nothing
from scope_server.api.routing.rates import CHANGES, OPEN, READS
from scope_server.limits import Rate
from scope_server.store.schema.columns import StreamTable

PREFIX = "/api/v1"
Handler = Callable[..., Awaitable[Answer]]
Method = Literal["GET", "POST"]
Lags = Callable[[Any], bool]


def never(_: Any) -> bool:
    """No query may be answered by a replica."""
    return False


def always(_: Any) -> bool:
    """Each query may be answered by a replica."""
    return True


@dataclass(frozen=True)
class OfStream:
    """How a route with a stream in its path is described for one stream."""

    summary: str
    answer: type[BaseModel]
    query: type[BaseModel]


@dataclass(frozen=True)
class Route:
    """A resource and what one method does with it.

    Attributes:
        path: as in aiohttp, with names of parameters in braces.
        role: the least that may call it; None: anyone, without a login.
        rate: how often a person, or without a login an address, may call it.
        audited: the name of the act in the audit log; empty: it is not in it.
        notes_itself: the handler notes the act, since only it knows whether it is one.
        handler: gets a `Call` and, by name, `path`, `query` and `body` if it declares them.
        path_model, query, body, answer: types, from the handler's annotations.
        status: of an answer.
        lags: whether a replica of the database may answer a query, with what was recorded up to a few seconds before.
        of_stream: for a path with `{stream}`: the description for one stream, or None if it has no such resource.
    """

    method: Method
    path: str
    role: Role | None
    rate: Rate
    handler: Handler
    path_model: type[BaseModel]
    query: type[BaseModel]
    body: type[BaseModel]
    answer: type[Answer]
    given: frozenset[str]
    audited: str = ""
    notes_itself: bool = False
    status: int = 200
    lags: Lags = never
    of_stream: Callable[[StreamTable], OfStream | None] | None = None

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.handler.__name__

    @property
    def needs(self) -> str:
        """The role, or `public`."""
        return self.role.value if self.role else "public"

    @property
    def meaning(self) -> str:
        """What it does, from the handler's docstring."""
        return " ".join((inspect.getdoc(self.handler) or "").split("\n\n", maxsplit=1)[0].split())

    @property
    def summary(self) -> str:
        """The first sentence of `meaning`."""
        return self.meaning.partition(". ")[0].removesuffix(".")


class Routes:
    """The routes of a module, collected by decorators."""

    def __init__(self) -> None:
        self._routes: list[Route] = []

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def get(
        self,
        path: str,
        role: Role | None,
        *,
        rate: Rate | None = None,
        lags: Lags = never,
        of_stream: Callable[[StreamTable], OfStream | None] | None = None,
    ) -> Callable[[Handler], Handler]:
        """Declares a resource that is read."""
        limit = rate or (READS if role else OPEN)
        return self._adding(method="GET", path=path, role=role, rate=limit, lags=lags, of_stream=of_stream)

    def post(
        self,
        path: str,
        role: Role | None,
        *,
        audited: str,
        notes_itself: bool = False,
        rate: Rate = CHANGES,
        status: int = 200,
    ) -> Callable[[Handler], Handler]:
        """Declares a change."""
        return self._adding(
            method="POST", path=path, role=role, rate=rate, audited=audited, notes_itself=notes_itself, status=status
        )

    def _adding(self, **declared: Any) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            hints = get_type_hints(handler, include_extras=True)
            self._routes.append(
                Route(
                    **declared,
                    handler=handler,
                    path_model=hints.get("path", Nothing),
                    query=hints.get("query", Nothing),
                    body=hints.get("body", Nothing),
                    answer=hints["return"],
                    given=frozenset(hints) & {"path", "query", "body"},
                )
            )
            return handler

        return add
