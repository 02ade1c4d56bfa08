"""The time from an event until its row can be queried, at 10,000 events/s, with all parts of `scope up`."""

import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from bench.measure import Result, at_most, loop
from scope_cli.stack import Stack

RATE, SECONDS = 10_000, 10
ADDRESSES = {
    "http": "127.0.0.1:18470",
    "ingest": "127.0.0.1:18471",
    "control": "127.0.0.1:18472",
    "metrics": "127.0.0.1:18473",
}
# All batches in a block are newer than those in earlier blocks.
NEW_ROWS = """
SELECT extract(epoch FROM clock_timestamp() - r.time)::float8, r.batch
FROM fresh.syscall AS b, unnest(b.time, b.batch) AS r (time, batch)
WHERE b.batch[1] > %s"""


def run() -> list[Result]:
    """The delay of each row, measured by polling for the newest."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        state = Path(folder) / "state"
        with Stack(state, lambda _: None, ADDRESSES) as stack:
            workload = subprocess.Popen(
                ["sh", "-c", "read go; exec " + " ".join(loop(RATE * SECONDS, RATE))], stdin=subprocess.PIPE
            )
            assert workload.stdin
            task = {"probe": "syscalls", "target": {"pid": workload.pid}, "options": {"names": "getppid"}}
            stack.client().post("tasks", body=task)
            workload.stdin.write(b"\n")
            workload.stdin.close()
            delays = _delays(state, RATE * SECONDS)
            workload.wait()
    delays.sort()
    return [
        at_most("time until a row can be queried: p99 at 10,000 events/s, s", delays[int(len(delays) * 0.99)], 2),
        Result("time until a row can be queried: median, s", f"{delays[len(delays) // 2]:.2f}"),
    ]


def _delays(state: Path, rows: int) -> list[float]:
    """One delay per row: from its time to the first poll that finds its block."""
    delays: list[float] = []
    newest = 0
    end = time.monotonic() + SECONDS + 20
    with psycopg.connect(host=str(state / "postgres"), user="scope", dbname="scope", autocommit=True) as connection:
        while len(delays) < rows and time.monotonic() < end:
            found = connection.execute(NEW_ROWS, [newest]).fetchall()
            delays += [delay for delay, _ in found]
            newest = max([newest, *(batch for _, batch in found)])
            time.sleep(0.02)
    if len(delays) < rows:
        raise RuntimeError(f"only {len(delays)} of {rows} rows arrived")
    return delays
