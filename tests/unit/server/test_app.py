"""The server as a whole."""

import os
import subprocess
import sys

from scope_cli.commands.server import MEMORY

# Two threads free 300 MB, and live on.
FREED = """
import threading, time
import pyarrow as pa

def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

def work():
    made = [pa.concat_arrays([source] * 8) for _ in range(12)]
    del made
    time.sleep(60)

source, before = pa.array(range(200_000)), resident_mb()
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
end = time.monotonic() + 50
time.sleep(1)
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
    ran = subprocess.run([sys.executable, "-c", FREED], env=os.environ | MEMORY, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
