"""`ollama`: more connections and models at once than are kept; what is not kept is counted."""

import sys
from pathlib import Path

from tests.probes.recording import Record

CONNECTIONS, KEPT_CONNECTIONS = 8209, 8192
MODELS, KEPT_MODELS = 3001, 1024

ASK_ALL = """
import os, resource, socket, sys
count = int(sys.argv[1])
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
kept = []
for _ in range(count):
    client, server = socket.socketpair()
    client.send(b"GET /v1/models HTTP/1.1\\r\\n\\r\\n")
    client.close()
    server.recv(100)
    kept.append(server)
os._exit(0)
"""

READ_ALL = """
import os, sys
for number in range(int(sys.argv[2])):
    path = os.path.join(sys.argv[1], str(number))
    with open(path, "wb") as file:
        file.write(b"GGUF")
    fd = os.open(path, os.O_RDONLY)
    os.read(fd, 4)
    os.close(fd)
"""


def test_more_connections_than_are_kept(record: Record) -> None:
    """8192 connections are followed at a time; the first request of each further one is counted as lost. A socket of
    the Unix domain has no address."""
    command = [sys.executable, "-S", "-E", "-c", ASK_ALL, str(CONNECTIONS)]
    recorded = record("ollama", command, ring_bytes=32 << 20)
    assert recorded.status == 0
    rows = recorded.rows("ollama_request")
    assert len(rows) == KEPT_CONNECTIONS
    assert {(row["ended"], row["peer"], row["port"]) for row in rows} == {("exited", None, None)}
    assert recorded.accounts["ollama_request"].lost == {"map_full": CONNECTIONS - KEPT_CONNECTIONS}


def test_more_models_than_are_kept(record: Record, tmp_path: Path) -> None:
    """Of the loads of a moment, 1024 are kept; others are counted as lost."""
    command = [sys.executable, "-S", "-E", "-c", READ_ALL, str(tmp_path), str(MODELS)]
    recorded = record("ollama", command, ring_bytes=32 << 20)
    kept = recorded.count("ollama_model")
    assert kept >= KEPT_MODELS
    assert kept + sum(recorded.accounts["ollama_model"].lost.values()) == MODELS
    assert len({row["path"] for row in recorded.rows("ollama_model")}) == kept
