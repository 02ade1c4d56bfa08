"""The REST API as the command line uses it."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from scope_cli.errors import CommandError
from scope_cli.installation import HTTP, state_dir, token_file

TIMEOUT_S = 30


class Client:
    """Calls the server at SCOPE_URL, or this machine's, with the token of SCOPE_TOKEN_FILE, or this machine's."""

    def __init__(self, url: str | None = None, token_path: Path | None = None) -> None:
        self.url = (url or os.environ.get("SCOPE_URL") or f"http://{HTTP}").rstrip("/")
        given = os.environ.get("SCOPE_TOKEN_FILE")
        path = token_path or (Path(given) if given else token_file(state_dir()))
        try:
            self._token = path.read_text().strip()
        except FileNotFoundError:
            raise CommandError(f"there is no token at {path}; start the server with `scope up`") from None
        except PermissionError:
            raise CommandError(f"the token at {path} is not yours to read; run as its owner") from None

    def get(self, *path: str, **query: Any) -> Any:
        """The answer to GET /api/v1/PATH; None and empty values of `query` are left out."""
        return self._call("GET", path, query, None)

    def post(self, *path: str, body: Any = None) -> Any:
        """The answer to POST /api/v1/PATH with a JSON body."""
        return self._call("POST", path, {}, body if body is not None else {})

    def _call(self, method: str, path: tuple[str, ...], query: dict[str, Any], body: Any) -> Any:
        pairs = [(name, value) for name, value in query.items() if value not in (None, "")]
        address = f"{self.url}/api/v1/{'/'.join(quote(part, safe='') for part in path)}"
        request = Request(
            f"{address}?{urlencode(pairs)}" if pairs else address,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with urlopen(request, timeout=TIMEOUT_S) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise CommandError(_problem(error)) from None
        except (URLError, TimeoutError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise CommandError(f"no server answers at {self.url} ({reason}); start one with `scope up`") from None


def _problem(error: HTTPError) -> str:
    """What the server said, if it said it as a problem document (RFC 9457)."""
    try:
        problem = json.load(error)
        return str(problem.get("detail") or problem["title"])
    except (ValueError, KeyError, AttributeError):
        return f"the server answered {error.code} {error.reason}"
