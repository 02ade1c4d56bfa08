"""A fake API with prepared answers, and a fixture that runs command lines."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scope_wire.unix_socket import listening

TOKEN = "0123456789abcdef-of-a-test"
STORAGE = {
    "bytes": 3 << 30,
    "wal_bytes": 0,
    "limit_bytes": 20 << 30,
    "free_bytes": 50 << 30,
    "floor_bytes": 1 << 30,
    "oldest_day": "2026-10-23",
    "days": [],
    "dropped_days": {"age": 7, "limit": 0, "floor": 0},
    "dropped": [],
    "problem": None,
}


class Api:
    """Gives each request to /api/v1 its next prepared answer, and repeats the last one. Keeps all requests.

    Attributes:
        answers: "GET tasks" -> (status, body), one after another.
        asked: method, path with query, and body of each request.
    """

    def __init__(self) -> None:
        self.answers: dict[str, list[tuple[int, Any]]] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.url = ""
        self.socket = Path()

    def answer(self, request: str, *bodies: Any, status: int = 200) -> None:
        """Adds answers to a request."""
        self.answers.setdefault(request, []).extend((status, body) for body in bodies)

    def handle(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """The answer to one request."""
        self.asked.append((method, path, body))
        left = self.answers.get(f"{method} {path.partition('?')[0]}")
        if not left:
            return 404, {"title": "Not Found", "detail": f"nothing is at {path}"}
        return left.pop(0) if len(left) > 1 else left[0]


def _handler(api: Api) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            if self.client_address and self.headers["Authorization"] != f"Bearer {TOKEN}":
                status, answer = 401, {"title": "Unauthorized"}
            else:
                status, answer = api.handle(self.command, self.path.removeprefix("/api/v1/"), body)
            sent = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: Any) -> None: ...

    return Handler


class _LocalServer(ThreadingHTTPServer):
    """At a Unix socket."""

    def __init__(self, path: Path, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("", 0), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening(path)


@pytest.fixture
def api(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """A running fake API; the command line finds its address in the state directory."""
    made = Api()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(made))
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    made.socket = tmp_path / "api.sock"
    local = _LocalServer(made.socket, _handler(made))
    threads = [threading.Thread(target=one.serve_forever) for one in (server, local)]
    for thread in threads:
        thread.start()
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "api-url").write_text(f"{made.url}\n{made.socket}\n")
    made.answer("GET storage", STORAGE)
    monkeypatch.setenv("SCOPE_STATE", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("SCOPE_URL", "SCOPE_TOKEN_FILE", "SCOPE_CA_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    yield made
    for one in (server, local):
        one.shutdown()
        one.server_close()
    for thread in threads:
        thread.join()


@pytest.fixture
def scope(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line in this process; returns status, stdout and stderr."""
    from scope_cli.main import main

    def run(*words: str) -> tuple[int, str, str]:
        try:
            status = main(words)
        except SystemExit as ended:  # raised by argparse
            status = int(ended.code or 0)
        said = capsys.readouterr()
        return status, said.out, said.err

    return run
