"""What a handler gets besides the parameters that it declares."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import web

from scope_server.accounts.caller import Caller
from scope_server.api.routing.cookies import Put

Shared = TypeVar("Shared")


@dataclass(frozen=True)
class Call:
    """A call of a route.

    Attributes:
        person: who calls; `ANYONE` if the route needs no login.
        application: its shared objects are `call[KEY]`, with the keys of `context`.
        address: from where.
        accept: the media types that the caller takes.
        program: what the caller's program calls itself.
        last_event: the id of the last event that the caller has of an event stream; empty: it begins.
        web_socket: whether the caller asks for a WebSocket; an answer that is `Live` has a message in each piece then.
        cookies: what the browser has sent.
        csrf: the header that proves a change by cookies.
        puts: what the answer puts into the browser; the handler appends to it.
        instead: what stands for shared objects, by their keys, if the call reads from a replica of the database.
    """

    person: Caller
    application: web.Application
    address: str = ""
    accept: str = ""
    program: str = ""
    last_event: str = ""
    web_socket: bool = False
    cookies: Mapping[str, str] = field(default_factory=dict)
    csrf: str = ""
    puts: list[Put] = field(default_factory=list)
    instead: Mapping[web.AppKey[Any], Any] = field(default_factory=dict)

    def __getitem__(self, key: web.AppKey[Shared]) -> Shared:
        found: Shared = self.instead[key] if key in self.instead else self.application[key]
        return found
