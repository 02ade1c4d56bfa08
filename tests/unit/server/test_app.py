"""The server as a whole."""

import subprocess
import sys

# With what `scope server` sets before it imports Arrow, two threads free 300 MB, and live on.
FREED = """
import os, sys, threading, time
import scope_cli.main, scope_cli.configuration.resolve, scope_wire.refused.handshakes
from scope_cli.commands.server import MEMORY
assert "pyarrow" not in sys.modules
os.environ |= MEMORY
import pyarrow as pa

def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

def work():
    made = [pa.concat_arrays([source] * 8) for _ in range(12)]
    assert len(made) == 12
    del made
    freed.release()
    time.sleep(60)

freed = threading.Semaphore(0)
source, before = pa.array(range(200_000)), resident_mb()
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
for _ in range(2):
    assert freed.acquire(timeout=60)
end = time.monotonic() + 50
while pa.total_allocated_bytes() > 2e6 or (left := resident_mb() - before) > 50:
    assert time.monotonic() < end, left
    time.sleep(0.1)
"""


def test_a_server_does_without_what_only_readers_of_rows_need() -> None:
    """A server that starts imports neither polars nor Arrow's datasets: a sixth of its memory then."""
    program = "import sys, scope_server.app; print({'polars', 'pyarrow.dataset'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


def test_memory_that_a_server_frees_is_given_back() -> None:
    """Also while the threads that freed it live on. Else a server that was busy once takes twice as much for ever."""
    ran = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
