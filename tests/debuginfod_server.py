"""A debuginfod server for tests, which can also answer badly, and files for it."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Answer = Callable[[BaseHTTPRequestHandler], None]


def stripped(program: Path) -> bytes:
    """Strips a program, and returns its debug file."""
    debug = program.with_suffix(".debug")
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["strip", program], check=True)
    content = debug.read_bytes()
    debug.unlink()
    return content


def sends(content: bytes) -> Answer:
    """An answer with this content."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    return answer


def has_nothing(request: BaseHTTPRequestHandler) -> None:
    """The answer of a server that does not know the build."""
    request.send_error(404)


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """A server that gives each request this answer: its URL, and the paths of the requests so far."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            answer(self)

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """The client may leave at any time."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()
