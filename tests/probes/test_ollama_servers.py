"""`ollama`: a server with Ollama's interface in front of the real llama.cpp, compared with its clients; and loads."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.llm.runs import recorded_run, serving, stopped
from tests.probes.ollama_rows import requests, told
from tests.probes.recording import Record, Recording

from scope_bpf.catalogue.target import Target

SERVER = Path(__file__).parents[1] / "llm" / "http_server.py"
FAR_NS = 200e6  # a program may be preempted beside its clock


def served(record: Record, model: Path, out: Path, *rounds: str, **options: Any) -> tuple[Any, Any, Recording]:
    """Ollama's interface in front of llama.cpp: what its clients tell, what it tells itself, and the recording."""
    with stopped([sys.executable, str(SERVER), str(model), *rounds], out) as pid:
        ended = f"kill -CONT {pid}; until grep -q '^State:.Z' /proc/{pid}/status; do sleep 0.05; done"
        recorded = record("ollama", ["sh", "-c", ended], target=Target(pid=pid), **options)
    *clients, server = (json.loads(line) for line in out.read_text().splitlines())
    return clients, server, recorded


def test_a_server_in_front_of_llama_cpp(record: Record, model: Path, tmp_path: Path) -> None:
    """Slow clients, at once, one after the other and several times in a connection: each request is one row with what
    its client has sent, received and measured; and one row for what the front asks its runner."""
    rounds = ("/api/generate*11", "/api/chat*13+17+5,/v1/chat/completions*23,/nonsense*3", "/api/generate*29")
    clients, server, recorded = served(record, model, tmp_path / "told", *rounds, paths="/")
    front = [row for row in requests(recorded) if row["port"] == server["front"]]
    runner = [row for row in requests(recorded) if row["port"] == server["runner"]]
    ours = Counter(told(front, "peer_port", "path", "status", "request_bytes", "response_bytes", "chunks", "ended"))
    own = ("port", "path", "status", "sent", "received", "chunks")
    assert ours == Counter((*(each[name] for name in own), "complete") for each in clients)
    assert len(clients) == 7
    assert all(row["writes"] == row["chunks"] for row in front if row["chunks"])
    for row, each in zip(front[:1] + front[-1:], clients[:1] + clients[-1:], strict=True):
        assert abs(row["duration_ns"] - each["duration_ns"]) < FAR_NS
        assert abs(row["first_byte_ns"] - each["first_ns"]) < FAR_NS
    asked = told(runner, "method", "path", "status", "ended")
    assert asked == [("POST", "/completion", 200, "complete")] * server["asked"]
    assert {row["pid"] for row in front} == {row["pid"] for row in runner}
    pieces = Counter(row["request"] for row in recorded.rows("ollama_chunk"))
    assert pieces == {row["request"]: row["writes"] for row in front + runner if row["writes"]}
    lines = [row["level"] for row in recorded.rows("ollama_log")]
    assert set(lines) <= {"info", "warn", "error", "cont", "none"}


def test_a_client_that_hangs_up(record: Record, model: Path, tmp_path: Path) -> None:
    """A client that leaves in the middle of a stream: the row tells so, and how far the response had come."""
    clients, server, recorded = served(record, model, tmp_path / "told", "/api/chat*2000!", "/api/chat*7")
    left, whole = (row for row in requests(recorded) if row["port"] == server["front"])
    assert (left["ended"], left["status"]) == ("peer_closed", 200)
    assert left["chunks"] >= clients[0]["chunks"] >= 2
    assert left["response_bytes"] >= clients[0]["received"]
    assert (whole["ended"], whole["response_bytes"]) == ("complete", clients[1]["received"])


def test_llama_cpp_loads_a_model(record: Record, model: Path, tmp_path: Path) -> None:
    """llama.cpp reads what a model is and maps its file: one row, with the file's size. Its log has levels."""
    recorded = recorded_run(record, serving(model, "1", "0", "-", "9*5"), tmp_path / "told", probe="ollama")
    (row,) = recorded.rows("ollama_model")
    size = model.stat().st_size
    assert (row["path"], row["file_bytes"], row["mapped_bytes"], row["maps"]) == (str(model), size, size, 1)
    assert 0 < row["read_bytes"] < size
    assert 0 < row["map_ns"] + row["read_ns"] < row["duration_ns"]
    assert (row["inode"], row["pid"]) == (model.stat().st_ino, recorded.rows("ollama_log")[0]["pid"])
    levels = Counter((each["function"], each["level"]) for each in recorded.rows("ollama_log"))
    assert levels["common_log_default_callback", "info"] > 10
    assert not any(level == "debug" for _, level in levels)
    assert recorded.accounts["ollama_model"].lost == {}


LOADS = """
import mmap, os, sys
model, other, more = (os.open(path, os.O_RDONLY) for path in sys.argv[1:4])
os.lseek(model, 97, 0), os.read(model, 11)  # not known yet
os.pread(model, 31, 0)
os.lseek(model, 0, 0), os.readv(model, [bytearray(0), bytearray(1000)])
os.read(other, 500)
os.read(more, 5), os.read(more, 5)
maps = [mmap.mmap(fd, size, prot=mmap.PROT_READ) for fd, size in ((model, 997), (model, 10003), (other, 500))]
os.close(model)
"""


READS_AGAIN = """
import os, sys, time
for size in (11, 13):
    fd = os.open(sys.argv[1], os.O_RDONLY)
    os.read(fd, size)
    os.close(fd)
    time.sleep(5)
os.read(os.open(sys.argv[1], os.O_RDONLY), 17)
"""


def test_a_load_that_goes_on(record: Record, tmp_path: Path) -> None:
    """A load without anything for 2 s has its row then; if it goes on, another row tells of the rest."""
    (tmp_path / "model").write_bytes(b"GGUF" + b"m" * 99)
    recorded = record("ollama", [sys.executable, "-S", "-E", "-c", READS_AGAIN, str(tmp_path / "model")])
    assert told(recorded.rows("ollama_model"), "read_bytes", "reads", "ended") == [
        (11, 1, "idle"),
        (13, 1, "idle"),
        (17, 1, "exited"),
    ]


def test_what_is_read_and_mapped_of_models(record: Record, tmp_path: Path) -> None:
    """A file is a model if its first bytes were read and are GGUF; then all that is read and mapped of it counts."""
    files = [tmp_path / name for name in ("a.bin", "b.gguf", "c")]
    files[0].write_bytes(b"GGUF" + b"a" * 9999)
    files[1].write_bytes(b"ggml" + b"b" * 9999)
    files[2].write_bytes(b"GGUF" + b"c" * 3)
    recorded = record("ollama", [sys.executable, "-S", "-E", "-c", LOADS, *map(str, files)])
    rows = recorded.rows("ollama_model")
    assert told(rows, "path", "file_bytes", "reads", "read_bytes", "maps", "mapped_bytes", "ended") == [
        (str(files[0]), 10003, 2, 1031, 2, 997 + 10003, "exited"),
        (str(files[2]), 7, 2, 7, 0, 0, "exited"),
    ]
