"""Ports for tests."""

import os
import random
import socket
from contextlib import suppress
from pathlib import Path

_given: set[int] = set()
_SLICES = 8


def free_port() -> int:
    """A loopback port that nobody listens on; another one each time.

    It lies below the range from which the kernel gives ports to outgoing connections: no connection of another test can
    get it. Each worker of pytest has a slice of its own.
    """
    first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    lowest = first_given // 2
    width = (first_given - lowest) // _SLICES
    begin = lowest + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % _SLICES * width
    while True:
        port = random.randrange(begin, begin + width)
        if port not in _given:
            with suppress(OSError), socket.create_server(("127.0.0.1", port)):
                _given.add(port)
                return port
