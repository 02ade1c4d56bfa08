"""`scope bench store`, as users and the release run it."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from tests.e2e.conftest import SCOPE


def test_a_small_store_is_measured() -> None:
    """`scope bench store` fills its own PostgreSQL, measures queries and writing, prints JSON, and leaves no files."""
    command = [*SCOPE, "bench", "store", "--rows", "20000", "--machines", "2", "--repeats", "2", "--json"]
    with tempfile.TemporaryDirectory(prefix="scope") as folder:  # the socket's path has to be short
        environment = {**os.environ, "TMPDIR": folder}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=540)
        assert list(Path(folder).iterdir()) == []
    assert done.returncode in (0, 1), done.stderr  # 1: a goal was missed, for example on a busy machine
    found = json.loads(done.stdout)
    assert set(found) == {"rows", "filled_s", "questions", "stored", "writer"}
    assert found["rows"] >= 20_000
    assert len(found["questions"]) >= 15
    assert all({"question", "p50_ms", "p95_ms", "goal_ms", "met"} <= set(one) for one in found["questions"])
    stored = {one["what"]: one for one in found["stored"]}
    assert stored["syscall: rollups"]["bytes_a_row"] > 0
    writer = found["writer"]
    assert writer["rows_a_second"] > 0 and writer["of_bare"] > 0 and writer["cpu_us"] > 0
    missed = not writer["met"] or not all(one["met"] for one in found["questions"])
    assert done.returncode == int(missed)
