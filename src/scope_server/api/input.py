"""Converts requests to typed values. Only this module checks the input of clients.

Invalid input raises InvalidQuery; its message names the parameter.
"""

import json
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from aiohttp import web

from scope_catalogue.nearest import meant, unknown
from scope_server.errors import InvalidQuery, UnknownThing

BODY_BYTES = 64 << 10
TEXT = 4096  # maximum characters of a parameter
PID = (1 << 31) - 1
_DEEPEST = 16  # maximum nesting of a body
_SHOWN = 60  # characters quoted in a message


def text(value: Any, name: str, longest: int = TEXT) -> str:
    """A text that PostgreSQL and agents accept."""
    if not isinstance(value, str):
        raise InvalidQuery(f"{name}: must be a text")
    if len(value) > longest:
        raise InvalidQuery(f"{name}: it has more than {longest} characters; shorten it")
    if "\0" in value:
        raise InvalidQuery(f"{name}: it has a NUL")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidQuery(f"{name}: it is not UTF-8")
    return value


def quoted(value: object) -> str:
    """A value quoted and shortened for a message."""
    shown = str(value)
    return f"'{shown[:_SHOWN]}…'" if len(shown) > _SHOWN else f"'{shown}'"


def integer(value: str, name: str, least: int, most: int) -> int:
    """A whole number in decimal digits."""
    digits = value.removeprefix("-")
    if digits.isascii() and digits.isdecimal() and len(digits) <= 20 and least <= int(value) <= most:
        return int(value)
    raise InvalidQuery(f"{name}: {quoted(value)} is not a whole number from {least} to {most}")


def moment(value: str, name: str) -> datetime:
    """A time; UTC if it has no time zone."""
    try:
        found = datetime.fromisoformat(value)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidQuery(f"{name}: {quoted(value)} is not a time; write it like 2026-01-31T12:00:00Z") from None


class Parameters:
    """The query parameters of a request. Each may be given only once.

    Args:
        names: the allowed parameters; others are refused.
    """

    def __init__(self, request: web.Request, names: Iterable[str]) -> None:
        self._given: dict[str, str] = {}
        for name, value in request.query.items():
            text(name, "a parameter's name")
            if name in self._given:
                raise InvalidQuery(f"{quoted(name)} is given twice")
            self._given[name] = text(value, name)
        _check_names("parameter", self._given, names)

    def text(self, name: str) -> str | None:
        """The text of a parameter; None if it is not given."""
        return self._given.get(name)

    def integer(self, name: str, least: int, most: int) -> int | None:
        """A whole number between bounds; None if it is not given."""
        value = self._given.get(name)
        return None if value is None else integer(value, name, least, most)

    def moment(self, name: str) -> datetime | None:
        """A time; None if it is not given."""
        value = self._given.get(name)
        return None if value is None else moment(value, name)

    def choice(self, name: str, choices: Iterable[str]) -> str | None:
        """One of the choices; None if it is not given."""
        value = self._given.get(name)
        if value is not None and value not in choices:
            raise InvalidQuery(f"{name}: {quoted(value)} is not one of {', '.join(choices)}{meant(value, choices)}")
        return value


def identity(request: web.Request, name: str) -> str:
    """A UUID in the request's path.

    Raises:
        UnknownThing: the text is not a UUID, so nothing has this id.
    """
    given = request.match_info[name]
    try:
        if len(given) > 36:
            raise ValueError
        return str(UUID(given))
    except ValueError:
        raise UnknownThing(f"{name}: {quoted(given.encode(errors='replace').decode())} is not the id of any") from None


async def fields(request: web.Request, names: Iterable[str] | None) -> dict[str, Any]:
    """The request's body: a JSON object with only these members, or any; empty if there is no body.

    All numbers are finite, all texts valid, and the nesting is limited.
    """
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise web.HTTPUnsupportedMediaType(
            text=f"Content-Encoding {quoted(encoding)} is not supported; send plain JSON"
        )
    try:
        found = json.loads((await request.read()).decode() or "{}", parse_constant=_no_constant, parse_int=_bounded)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InvalidQuery(f"the body is not valid JSON: {reason}") from None
    if not isinstance(found, dict):
        raise InvalidQuery("the body must be a JSON object")
    _check(found, "body", 0)
    if names is not None:
        _check_names("field", found, names)
    return found


def only(value: Any, name: str, names: Iterable[str]) -> dict[str, Any]:
    """A member of the body: an object with only these members; empty if absent."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidQuery(f"{name}: must be an object")
    _check_names(f"field of {name}", value, names)
    return value


def number(value: Any, name: str, above: float, most: float) -> float:
    """A member of the body: a number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not above < value <= most:
        raise InvalidQuery(f"{name}: {quoted(value)} is not a number above {above:g} and up to {most:g}")
    return float(value)


def whole(value: Any, name: str, least: int, most: int) -> int:
    """A member of the body: a whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidQuery(f"{name}: {quoted(value)} is not a whole number from {least} to {most}")
    return value


def _check_names(what: str, given: Iterable[str], names: Iterable[str]) -> None:
    others = sorted(set(given) - set(names))
    if others:
        raise InvalidQuery(unknown(what, others[0], names))


def _check(value: Any, name: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise InvalidQuery(f"{name}: it is nested too deeply")
    if isinstance(value, str):
        text(value, name, BODY_BYTES)
    elif isinstance(value, float) and not math.isfinite(value):  # such as 1e999
        raise InvalidQuery(f"{name}: a number is too large")
    elif isinstance(value, dict):
        for key, inner in value.items():
            text(key, f"a name in {name}")
            _check(inner, key, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, name, depth + 1)


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")


def _bounded(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError(f"the number {quoted(digits)} is too large")
    return int(digits)
