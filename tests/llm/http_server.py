"""A server with Ollama's interface over HTTP, in front of llama.cpp's own server (PyPI package xllamacpp).

usage: http_server.py MODEL ROUND...

As in Ollama, each request becomes one to the runner, over another connection. A round is requests that are made at the
same time, each by a client of its own: `PATH*N,...` asks for N tokens, `PATH*N+N` for N and then, over the same
connection, for N more. /api/generate and /api/chat stream a JSON object per line, the paths in /v1/ server-sent events;
`PATH*N!` hangs up after the second chunk. Everything is in one process, which stops itself (SIGSTOP) when llama.cpp is
loaded. Prints what each client got, as JSON, and how often the runner was asked.
"""

import http.server
import json
import os
import signal
import socket
import sys
import threading
import time
from typing import Any

from server import serve

HANGS_UP_AFTER = 2
PATIENCE_S = 60


class Front(http.server.BaseHTTPRequestHandler):
    """Ollama's part: one thread a connection."""

    protocol_version = "HTTP/1.1"
    runner: tuple[str, int]
    asked = 0

    def do_POST(self) -> None:
        """Asks the runner and streams what it says."""
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path not in ("/api/generate", "/api/chat", "/v1/chat/completions"):
            self.send_error(404)
            return
        Front.asked += 1
        self._begin()
        for number, text in enumerate(self._tokens(wanted["n"])):
            said = json.dumps({"number": number, "response": text})
            self._chunk(f"data: {said}\n\n" if self.path.startswith("/v1/") else f"{said}\n")
        self._write(b"0\r\n\r\n")

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self._write(b"%x\r\n%s\r\n" % (len(data), data))

    def _write(self, data: bytes) -> None:
        self.connection.sendall(data)

    def _tokens(self, wanted: int) -> Any:
        """What llama.cpp generates, as its server says it."""
        body = json.dumps({"prompt": "a b c", "n_predict": wanted, "ignore_eos": True, "stream": True}).encode()
        head = f"POST /completion HTTP/1.1\r\nHost: runner\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(self.runner, PATIENCE_S) as connection:
            connection.sendall(head.encode() + body)
            for line in connection.makefile("rb"):
                if line.startswith(b"data: {"):
                    yield json.loads(line[6:]).get("content", "")

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def ask(port: int, asked: str) -> None:
    """A client: asks, measures, and tells."""
    path, _, tokens = asked.partition("*")
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
        for each in tokens.rstrip("!").split("+"):
            body = json.dumps({"n": int(each)}).encode()
            head = f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            began = time.monotonic_ns()
            for piece in (head[:3], head[3:-1], head[-1:] + body):  # a slow client
                connection.sendall(piece)
                time.sleep(0.002)
            got, first_ns = receive(connection, HANGS_UP_AFTER if tokens.endswith("!") else None)
            told = {"path": path, "status": int(got.split()[1]), "sent": len(head) + len(body), "received": len(got)}
            told |= {"chunks": chunks(got), "duration_ns": time.monotonic_ns() - began, "first_ns": first_ns - began}
            print(json.dumps(told | {"port": connection.getsockname()[1]}), flush=True)


def receive(connection: socket.socket, most_chunks: int | None) -> tuple[bytes, int]:
    """A response, or as much of it as the client waits for; and when its first byte came."""
    got, first_ns = b"", 0
    while not is_whole(got) and (most_chunks is None or (chunks(got) or 0) < most_chunks):
        got += connection.recv(65536)
        first_ns = first_ns or time.monotonic_ns()
    return got, first_ns


def is_whole(got: bytes) -> bool:
    """Whether a response has come to its end."""
    head, end, body = got.partition(b"\r\n\r\n")
    if not end:
        return False
    if b"chunked" in head:
        return body.endswith(b"0\r\n\r\n")
    (length,) = (line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    return len(body) == int(length.split(b":")[1])


def chunks(got: bytes) -> int | None:
    """The chunks in a response."""
    head, _, body = got.partition(b"\r\n\r\n")
    return body.count(b"}\n") if b"chunked" in head else None


def main() -> None:
    """Plays the rounds."""
    model, *rounds = sys.argv[1:]
    runner = serve(model, 2, 0, "-")
    host, _, port = runner.listening_address.rpartition("/")[2].rpartition(":")
    Front.runner = (host, int(port))
    front = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Front)
    front.daemon_threads = False
    threading.Thread(target=front.serve_forever, daemon=True).start()
    os.kill(os.getpid(), signal.SIGSTOP)
    for each in rounds:
        threads = [threading.Thread(target=ask, args=(front.server_port, asked)) for asked in each.split(",")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    front.shutdown()
    front.server_close()  # waits for its threads: one may not have seen yet that its client has left
    print(json.dumps({"front": front.server_port, "runner": int(port), "asked": Front.asked}), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)
