"""What a handler gets besides the parameters that it declares."""

from dataclasses import dataclass
from typing import TypeVar

from aiohttp import web

from scope_server.accounts.caller import Caller

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
    """

    person: Caller
    application: web.Application
    address: str = ""
    accept: str = ""
    program: str = ""
    last_event: str = ""

    def __getitem__(self, key: web.AppKey[Shared]) -> Shared:
        return self.application[key]
