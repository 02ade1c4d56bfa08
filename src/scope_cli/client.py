"""The REST API as the command line uses it."""

import json
import shutil
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any, BinaryIO
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request

from scope_cli.access import Access, found, refreshed
from scope_cli.api import Api
from scope_cli.errors import CommandError, NotLoggedIn, ServerUnreachable, UsageError
from scope_cli.https import opener, socket_opener
from scope_cli.server_events import ServerEvent, server_events

_KINDS: dict[int, type[CommandError]] = {400: UsageError, 401: NotLoggedIn, 503: ServerUnreachable}


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
        socket = self._access.socket
        try:
            self._opener = socket_opener(socket) if socket else opener(self._access.authority)
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

    def save(self, file: BinaryIO, *path: str, **query: object) -> str:
        """Writes the answer to GET /api/v1/PATH to a file, as it comes; of any size.

        Returns:
            What was lost of it, as the server says; empty: nothing.
        """
        return str(self._call("GET", path, query, None, file))

    def watch(self, *path: str, **query: object) -> Iterator[ServerEvent]:
        """The events of GET /api/v1/PATH as they come, until the server ends the answer.

        Raises:
            ServerUnreachable: also if the connection breaks, or is silent for longer than an answer may take.
        """
        try:
            yield from self._watched(path, query)
            return
        except NotLoggedIn:
            if not self._access.refresh_token:
                raise
        self._access = refreshed(self._access, self._refresh)
        yield from self._watched(path, query)

    def _watched(self, path: tuple[str, ...], query: dict[str, object]) -> Iterator[ServerEvent]:
        with self._answered("GET", path, query, None) as answer:
            yield from server_events(answer)

    def _call(
        self, method: str, path: tuple[str, ...], query: dict[str, object], body: object, file: BinaryIO | None = None
    ) -> Any:
        try:
            return self._asked(method, path, query, body, file)
        except NotLoggedIn:
            if not self._access.refresh_token:
                raise
        self._access = refreshed(self._access, self._refresh)
        return self._asked(method, path, query, body, file)

    def _refresh(self, token: str) -> tuple[str, str]:
        fresh = self._asked("POST", ("auth", "refresh"), {}, {"refresh_token": token})
        return fresh["access_token"], fresh["refresh_token"]

    def _asked(
        self, method: str, path: tuple[str, ...], query: dict[str, object], body: object, file: BinaryIO | None = None
    ) -> Any:
        with self._answered(method, path, query, body) as answer:
            if file is None:
                return json.load(answer)
            shutil.copyfileobj(answer, file)
            return answer.headers.get("X-Scope-Lost", "")

    @contextmanager
    def _answered(self, method: str, path: tuple[str, ...], query: dict[str, object], body: object) -> Iterator[Any]:
        """The answer, for the block. What goes wrong in it is the server's error, too."""
        pairs = [(name, value) for name, value in query.items() if value not in (None, "")]
        base = "http://localhost" if self._access.socket else self.url
        address = f"{base}/api/v1/{'/'.join(quote(part, safe='') for part in path)}"
        shown = {"Authorization": f"Bearer {self._access.token}"} if self._access.token else {}
        request = Request(
            f"{address}?{urlencode(pairs)}" if pairs else address,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={**shown, "Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                yield answer
        except HTTPError as error:
            with error:
                said = _json_of(error)
            raise _KINDS.get(error.code, CommandError)(_problem(error, said)) from None
        except (URLError, TimeoutError, OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise _unreachable(self._access.socket or self.url, reason, self._timeout_s) from None


def _unreachable(url: str, reason: object, timeout_s: float) -> CommandError:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return CommandError(f"{url} shows a certificate of another authority than expected ({reason.verify_message})")
    if isinstance(reason, TimeoutError):
        return ServerUnreachable(
            f"no answer from {url} within {timeout_s:g} s; check the address, or try again if the server is overloaded"
        )
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
