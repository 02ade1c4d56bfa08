"""Listens, connects more often than it accepts, and prints as JSON what ss and the kernel's counters say.

usage: listening.py HOST BACKLOG    connects until the queue is full, then thrice more; accepts all that were queued
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

HOST, BACKLOG = sys.argv[1], int(sys.argv[2])
FAMILY = socket.AF_INET6 if ":" in HOST else socket.AF_INET
REFUSED = 3


def dropped() -> int:
    """TcpExtListenDrops of this network namespace."""
    lines = [line.split() for line in Path("/proc/net/netstat").read_text().splitlines() if line[:7] == "TcpExt:"]
    return int(dict(zip(*lines, strict=True))["ListenDrops"])


Path("/proc/self/comm").write_text("listeners-test")
server = socket.create_server((HOST, 0), family=FAMILY, backlog=BACKLOG)
port = server.getsockname()[1]
clients = [socket.create_connection((HOST, port)) for _ in range(BACKLOG + 1)]
for _ in range(REFUSED):
    late = socket.socket(FAMILY, socket.SOCK_STREAM)
    late.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        late.connect((HOST, port))
    late.close()
said = subprocess.run(["ss", "-ltnH", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout.split()
time.sleep(1)  # there is a row of the full queue meanwhile
for _ in clients:
    server.accept()
time.sleep(1)
server.close()
print(json.dumps({"pid": os.getpid(), "port": port, "ss": [int(said[1]), int(said[2])], "dropped": dropped()}))
