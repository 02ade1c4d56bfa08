"""Reads requests: what is checked before their types are. NUL, invalid UTF-8, parameters given twice, nesting, size."""

import json
import math
from typing import Any

from aiohttp import web

from scope_server.errors import InvalidQuery

BODY_BYTES = 64 << 10
TEXT = 4096  # maximum characters of a parameter
_DEEPEST = 16  # maximum nesting of a body
_SHOWN = 60  # characters quoted in a message


def quoted(value: object) -> str:
    """A value quoted and shortened for a message."""
    shown = str(value).encode(errors="replace").decode()
    return f"'{shown[:_SHOWN]}…'" if len(shown) > _SHOWN else f"'{shown}'"


def parameters(request: web.Request) -> dict[str, str]:
    """The parameters of the query, as texts.

    Raises:
        InvalidQuery: one is given twice, too long or not a valid text.
    """
    given: dict[str, str] = {}
    for name, value in request.query.items():
        if wrong := _wrong(name, TEXT):
            raise InvalidQuery(f"a parameter's name: {wrong}")
        if wrong := "it is given twice" if name in given else _wrong(value, TEXT):
            raise InvalidQuery(wrong, parameter=name)
        given[name] = value
    return given


def path_parameters(request: web.Request) -> dict[str, str]:
    """The parameters of the path, as texts.

    Raises:
        InvalidQuery: one is too long or not a valid text.
    """
    given = dict(request.match_info)
    for name, value in given.items():
        if wrong := _wrong(value, TEXT):
            raise InvalidQuery(wrong, parameter=name)
    return given


async def body(request: web.Request) -> dict[str, Any]:
    """The request's body: a JSON object; empty if there is no body.

    All numbers are finite, all texts valid, and the nesting is limited.

    Raises:
        InvalidQuery: it is not such an object.
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
    _check(found, "", 0)
    return found


def _wrong(text: str, longest: int) -> str:
    """Why PostgreSQL or an agent would refuse a text; empty if none would."""
    if len(text) > longest:
        return f"it has more than {longest} characters; shorten it"
    if "\0" in text:
        return "it has a NUL"
    return "it is not UTF-8" if any("\ud800" <= character <= "\udfff" for character in text) else ""


def _check(value: Any, pointer: str, depth: int) -> None:
    wrong = ""
    if depth > _DEEPEST:
        wrong = "it is nested too deeply"
    elif isinstance(value, str):
        wrong = _wrong(value, BODY_BYTES)
    elif isinstance(value, float) and not math.isfinite(value):  # such as 1e999
        wrong = "the number is too large"
    elif isinstance(value, dict):
        wrong = next((f"a field's name: {found}" for key in value if (found := _wrong(key, TEXT))), "")
    if wrong:
        raise InvalidQuery(f"{pointer[1:].replace('/', '.') or 'the body'}: {wrong}", pointer=pointer)
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        _check(part, f"{pointer}/{escaped(str(key))}", depth + 1)


def escaped(key: str) -> str:
    """A key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")


def _bounded(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError(f"the number {quoted(digits)} is too large")
    return int(digits)
