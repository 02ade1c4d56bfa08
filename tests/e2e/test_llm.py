"""Requests over HTTP and those of llama.cpp, in one database: connected by process and time."""

import os
import signal
import sys
from pathlib import Path

import psycopg
from tests.e2e.conftest import Up, until
from tests.llm.runs import stopped
from tests.llm.tiny_model import write

SERVER = Path(__file__).parents[1] / "llm" / "http_server.py"
ROUNDS = {"/api/chat*7": 7, "/api/generate*11": 11, "/v1/chat/completions*5": 5}
JOIN = """
SELECT http.path, request.generated_tokens
FROM scope.ollama_request AS http
JOIN scope.llama_request AS request
    ON request.machine_id = http.machine_id AND request.pid = http.pid AND request.start_ns = http.start_ns
    AND request.ktime_ns >= http.ktime_ns
    AND request.ktime_ns + request.duration_ns <= http.ktime_ns + http.duration_ns
WHERE http.pid = %s ORDER BY http.ktime_ns
"""


def test_requests_over_http_contain_those_of_llama_cpp(up: Up, tmp_path: Path) -> None:
    """Each request to the front, and the one that it makes to its runner, contains the request of llama.cpp."""
    model = tmp_path / "tiny.gguf"
    write(model)
    with stopped([sys.executable, str(SERVER), str(model), *ROUNDS], tmp_path / "told") as pid:
        watched = ("--pid", str(pid))
        tasks = [
            up.scope("start", "local", "ollama", "-o", "paths=/", *watched).stdout.strip(),
            up.scope("start", "local", "llama", *watched).stdout.strip(),
        ]
        os.kill(pid, signal.SIGCONT)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with psycopg.connect(host=str(up.state / "postgres"), user="scope", dbname="scope") as connection:
        until(lambda: len(connection.execute(JOIN, [pid]).fetchall()) == 2 * len(ROUNDS))
        found = connection.execute(JOIN, [pid]).fetchall()
    for task in tasks:
        assert up.scope("stop", task).returncode == 0
    wanted = [(path, tokens) for one, tokens in ROUNDS.items() for path in (one.partition("*")[0], "/completion")]
    assert sorted(found) == sorted(wanted)
