"""Logins over HTTP, with argon2 at its recommended cost: CPU time of the server for one."""

import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.measure import Result, at_least
from scope_cli.bench_fleet.server import FleetServer

LOGINS, AT_ONCE = 50, 4  # no more: an address has 60 a minute
_PASSWORD = "correct horse battery"


def run() -> list[Result]:
    """Logins a second that a core of the server can do."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder, FleetServer(Path(folder), 1) as server:
        client = server.client()
        emails = [f"{uuid.uuid4().hex}@example.org" for _ in range(AT_ONCE)]
        for email in emails:
            client.post("users", body={"email": email, "password": _PASSWORD, "role": "viewer"})

        def log_in(number: int) -> None:
            client.post("auth", "login", body={"email": emails[number % AT_ONCE], "password": _PASSWORD})

        with ThreadPoolExecutor(AT_ONCE) as people:
            list(people.map(log_in, range(AT_ONCE)))  # warm
            before_s = server.cpu_s
            list(people.map(log_in, range(LOGINS)))
            took_s = server.cpu_s - before_s
    return [at_least("logins a second, a core of the server", LOGINS / took_s, 20, "")]
