"""The REST API as the command line uses it."""

import json
import ssl
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request

from scope_cli.access import Access, found
from scope_cli.api import Api
from scope_cli.errors import CommandError, ServerUnreachable, UsageError
from scope_cli.https import opener

_KINDS: dict[int, type[CommandError]] = {400: UsageError, 503: ServerUnreachable}


class Client(Api):
    """Calls a server.

    Args:
        access: the server; without one, as `scope_cli.access.found` finds it.
        timeout_s: for an answer.

    Raises:
        CommandError: there is no token or no certificate; the methods: the server answers with an error.
        UsageError: the methods: the server refuses what was asked, such as a filter.
        ServerUnreachable: the methods: the server does not answer, or its database is away.
    """

    def __init__(self, access: Access | None = None, timeout_s: float = 30.0) -> None:
        self._access = access or found()
        self._timeout_s = timeout_s
        try:
            self._opener = opener(self._access.authority)
        except ssl.SSLError:
            raise CommandError("the file with the authority's certificate has none") from None

    @property
    def url(self) -> str:
        """Of the server, without a slash at its end."""
        return self._access.url

    def get(self, *path: str, **query: object) -> Any:  # noqa: D102  # as in Api
        return self._call("GET", path, query, None)

    def post(self, *path: str, body: object = None) -> Any:  # noqa: D102  # as in Api
        return self._call("POST", path, {}, body if body is not None else {})

    def _call(self, method: str, path: tuple[str, ...], query: dict[str, object], body: object) -> Any:
        pairs = [(name, value) for name, value in query.items() if value not in (None, "")]
        address = f"{self.url}/api/v1/{'/'.join(quote(part, safe='') for part in path)}"
        request = Request(
            f"{address}?{urlencode(pairs)}" if pairs else address,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._access.token}", "Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return json.load(answer)
        except HTTPError as error:
            with error:
                said = _json_of(error)
            raise _KINDS.get(error.code, CommandError)(_problem(error, said)) from None
        except (URLError, TimeoutError, OSError, HTTPException, ValueError) as error:
            raise _unreachable(self.url, getattr(error, "reason", error)) from None


def _unreachable(url: str, reason: object) -> CommandError:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return CommandError(f"{url} shows a certificate of another authority than expected ({reason.verify_message})")
    return ServerUnreachable(f"no server answers at {url} ({reason}); start one with `scope up`")


def _json_of(error: HTTPError) -> Any:
    try:
        return json.load(error)
    except (ValueError, OSError, HTTPException):
        return None


def _problem(error: HTTPError, said: Any) -> str:
    """What the server said, if it said it as a problem document (RFC 9457)."""
    if isinstance(said, dict) and (text := said.get("detail") or said.get("title")):
        return str(text)
    return f"the server answered {error.code} {error.reason}"
