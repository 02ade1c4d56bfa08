"""Which processes are SCOPE's own."""

import os
import subprocess
import sys

from scope_agentd.own_processes import families

PARENT = """
import subprocess, sys
open("/proc/self/comm", "wb").write(b"\\xff) R 1")
child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
input()
"""


def test_descendants_below_a_process_with_a_hostile_name() -> None:
    """A process whose name is no text, and looks like the fields after it, hides none of its children."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        try:
            assert {os.getpid(), parent.pid, child} <= families([])
        finally:
            parent.kill()
