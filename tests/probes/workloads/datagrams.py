"""Sends datagrams in a way that argv names, and prints as JSON what the programs and the kernel know of them.

usage: datagrams.py HOW COUNT HOST
"""

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HOW, COUNT, HOST = sys.argv[1], int(sys.argv[2]), sys.argv[3]
FAMILY = socket.AF_INET6 if ":" in HOST else socket.AF_INET
END = b"end"


def named(name: str) -> None:
    Path("/proc/self/comm").write_text(name)


def sizes(n: int) -> tuple[int, int]:
    """What the client's datagram n has, and its answer."""
    return (n * 7919) % 1409, (n * 104_729) % 1201


def forked(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    work()
    os._exit(0)


def counters() -> dict[str, int]:
    """The kernel's counters of datagrams in this network namespace, of IPv4 and IPv6 together."""
    lines = Path("/proc/net/snmp").read_text().splitlines()
    names, values = [line.split()[1:] for line in lines if line[:4] == "Udp:"]
    found = {name: int(value) for name, value in zip(names, values, strict=True)}
    sixes = dict(line.split() for line in Path("/proc/net/snmp6").read_text().splitlines())
    return {name: value + int(sixes.get(f"Udp6{name}", 0)) for name, value in found.items()}


def bound(host: str = HOST) -> socket.socket:
    made = socket.socket(FAMILY, socket.SOCK_DGRAM)
    made.bind((host, 0))
    return made


def ask() -> dict[str, Any]:
    """A client with a connected socket asks, a server in another process answers."""
    server = bound()

    def serve() -> None:
        named("udp-server")
        for n in range(COUNT):
            _, peer = server.recvfrom(2048)
            server.sendto(bytes(sizes(n)[1]), peer)

    child = forked(serve)
    named("udp-client")
    port = server.getsockname()[1]
    server.close()
    with socket.socket(FAMILY, socket.SOCK_DGRAM) as client:
        client.connect((HOST, port))
        for n in range(COUNT):
            client.send(bytes(sizes(n)[0]))
            assert len(client.recv(2048)) == sizes(n)[1]
        own = client.getsockname()[1]
    os.waitpid(child, 0)
    return {"client": os.getpid(), "server": child, "port": port, "own": own}


def many() -> dict[str, Any]:
    """One socket that is not connected sends to many, each time one more byte."""
    servers = [bound() for _ in range(COUNT)]
    with bound() as client:
        for n, server in enumerate(servers):
            client.sendto(bytes(n), server.getsockname())
            server.recv(2048)
        own = client.getsockname()[1]
    return {"own": own, "ports": [server.getsockname()[1] for server in servers]}


def unread() -> dict[str, Any]:
    """Datagrams that their receiver does not read until there is no room."""
    receiver = bound()
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
    with bound() as sender:
        for _ in range(COUNT):
            sender.sendto(bytes(1009), receiver.getsockname())
    receiver.setblocking(False)
    got = 0
    with contextlib.suppress(BlockingIOError):
        while receiver.recv(2048):
            got += 1
    return {"port": receiver.getsockname()[1], "got": got}


def refused() -> dict[str, Any]:
    """A connected socket sends to a port without a listener: each second call gets the error of the one before."""
    closed = bound()
    errors = 0
    with socket.socket(FAMILY, socket.SOCK_DGRAM) as client:
        client.connect(closed.getsockname())
        closed.close()
        for _ in range(COUNT):
            try:
                client.send(b"x")
            except ConnectionRefusedError:
                errors += 1
    return {"errors": errors}


def handed() -> dict[str, Any]:
    """A socket that one process makes and another uses."""
    receiver, sender = bound(), bound()

    def send() -> None:
        named("udp-user")
        for _ in range(COUNT):
            sender.sendto(bytes(1009), receiver.getsockname())

    child = forked(send)
    os.waitpid(child, 0)
    return {"user": child, "port": receiver.getsockname()[1]}


def lives() -> dict[str, Any]:
    """A flow of some seconds, then one that is idle while its socket stays open."""
    receiver, sender = bound(), bound()
    for n in range(COUNT):
        sender.sendto(bytes(1009 + n), receiver.getsockname())
        assert len(receiver.recv(4096)) == 1009 + n
        time.sleep(0.1)
    time.sleep(4)
    return {"port": receiver.getsockname()[1], "sent": sum(1009 + n for n in range(COUNT))}


def flood() -> dict[str, Any]:
    """One datagram to each of so many addresses."""
    with socket.socket(FAMILY, socket.SOCK_DGRAM) as sender:
        for n in range(COUNT):
            sender.sendto(b"", (f"127.{1 + (n >> 16)}.{n >> 8 & 255}.{n & 255}", 4001))
    return {}


if __name__ == "__main__":
    before = counters()
    told = globals()[HOW]()
    more = {name: value - before[name] for name, value in counters().items()}
    print(json.dumps({"pid": os.getpid(), "netns": Path("/proc/self/ns/net").stat().st_ino, "more": more, **told}))
