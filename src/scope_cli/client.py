"""The REST API as the command line uses it."""

import json
import os
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

from scope_cli.errors import CommandError, ServerUnreachable, UsageError
from scope_cli.installation import another_users, running_state_dir, token_file, told_url
from scope_wire.errors import InvalidToken
from scope_wire.token import read_token

_UNAVAILABLE = 503
_KINDS: dict[int, type[CommandError]] = {400: UsageError, _UNAVAILABLE: ServerUnreachable}
_opener = build_opener(ProxyHandler({}))  # no proxy knows this machine's loopback


class Client:
    """Calls the server at SCOPE_URL, or this machine's, with the token of SCOPE_TOKEN_FILE, or this machine's.

    Args:
        url: of the server; without one, SCOPE_URL, then where the server of this user's `scope up` listens, then where
            one listened last.
        token_path: without one, as above.
        timeout_s: for an answer.

    Raises:
        CommandError: there is no token; the methods: the server answers with an error.
        UsageError: the methods: the server refuses what was asked, such as a filter.
        ServerUnreachable: the methods: the server does not answer, or its database is away.
    """

    def __init__(self, url: str | None = None, token_path: Path | None = None, timeout_s: float = 30.0) -> None:
        state = running_state_dir()
        self.url = (url or os.environ.get("SCOPE_URL") or told_url(state)).rstrip("/")
        given = os.environ.get("SCOPE_TOKEN_FILE")
        self._timeout_s = timeout_s
        try:
            self._token = read_token(token_path or (Path(given) if given else token_file(state)))
        except InvalidToken as error:
            raise CommandError(f"{error}{another_users()}") from None

    def get(self, *path: str, **query: Any) -> Any:
        """The answer to GET /api/v1/PATH; None and empty values of `query` are left out."""
        return self._call("GET", path, query, None)

    def post(self, *path: str, body: Any = None) -> Any:
        """The answer to POST /api/v1/PATH with a JSON body."""
        return self._call("POST", path, {}, body if body is not None else {})

    def health(self) -> dict[str, Any]:
        """The answer to GET /api/v1/health, of a server that is not healthy as well."""
        answer = self._call("GET", ("health",), {}, None, accepted=_UNAVAILABLE)
        return answer if isinstance(answer, dict) else {}

    def _call(self, method: str, path: tuple[str, ...], query: dict[str, Any], body: Any, accepted: int = 0) -> Any:
        pairs = [(name, value) for name, value in query.items() if value not in (None, "")]
        address = f"{self.url}/api/v1/{'/'.join(quote(part, safe='') for part in path)}"
        request = Request(
            f"{address}?{urlencode(pairs)}" if pairs else address,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with _opener.open(request, timeout=self._timeout_s) as answer:
                return json.load(answer)
        except HTTPError as error:
            with error:
                said = _json_of(error)
            if error.code == accepted and said is not None:
                return said
            raise _KINDS.get(error.code, CommandError)(_problem(error, said)) from None
        except (URLError, TimeoutError, OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ServerUnreachable(f"no server answers at {self.url} ({reason}); start one with `scope up`") from None


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
