"""Makes TCP connections in a way that argv names, and prints as JSON what the programs themselves know of them.

usage: connections.py HOW COUNT HOST [NETNS]    NETNS: file of the network namespace that the server is in
"""

import contextlib
import ctypes
import errno
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

HOW, COUNT, HOST = sys.argv[1], int(sys.argv[2]), sys.argv[3]
FAMILY = socket.AF_INET6 if ":" in HOST else socket.AF_INET
OWN = "/proc/self/ns/net"
SERVERS = sys.argv[4] if len(sys.argv) > 4 else OWN
OVER = {"06", "07", "0A"}  # in /proc/net/tcp: time_wait, close, listen
TALKERS = 4 + COUNT // 1000
RESET = struct.pack("ii", 1, 0)


def named(name: str) -> None:
    Path("/proc/self/comm").write_text(name)


def sizes(n: int) -> tuple[int, int]:
    """What the client of connection n sends, and what it gets."""
    return (n * 7919) % 100_003, (n * 104_729) % 50_021


def read_to_end(connection: socket.socket) -> int:
    total = 0
    while data := connection.recv(65536):
        total += len(data)
    return total


def forked(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    work()
    os._exit(0)


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """A time in another network namespace."""
    with Path(OWN).open() as before, Path(namespace).open() as other:
        ctypes.CDLL(None).setns(other.fileno(), 0)
        yield
        ctypes.CDLL(None).setns(before.fileno(), 0)


def listening() -> socket.socket:
    with inside(SERVERS):
        return socket.create_server((HOST, 0), family=FAMILY, backlog=128)


def talk() -> dict[str, Any]:
    """Clients send, shut down and read; a server in another process answers and closes."""
    server = listening()

    def serve() -> None:
        named("net-server")
        for n in range(COUNT):
            with server.accept()[0] as connection:
                read_to_end(connection)
                connection.sendall(bytes(sizes(n)[1]))

    child = forked(serve)
    named("net-client")
    ports = []
    for n in range(COUNT):
        with socket.create_connection(server.getsockname()[:2]) as client:
            ports.append(client.getsockname()[1])
            client.sendall(bytes(sizes(n)[0]))
            client.shutdown(socket.SHUT_WR)
            assert read_to_end(client) == sizes(n)[1]
    os.waitpid(child, 0)
    for namespace in (OWN, SERVERS):
        wait_for_ends(namespace, server.getsockname()[1])
    return {
        "client": os.getpid(),
        "server": child,
        "port": server.getsockname()[1],
        "ports": ports,
        "sizes": [sizes(n) for n in range(COUNT)],
        "snmp": [snmp(OWN), snmp(SERVERS)],
    }


def talks() -> dict[str, Any]:
    """`talk`, shared by several processes: far connections mostly wait."""
    command = [sys.executable, "-S", "-E", __file__, "talk", str(COUNT // TALKERS), *sys.argv[3:]]
    talkers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(TALKERS)]
    told = [json.loads(talker.communicate()[0]) for talker in talkers]
    return {
        "servers": [one["port"] for one in told],
        "sizes": [sizes for one in told for sizes in one["sizes"]],
        "snmp": [snmp(OWN), snmp(SERVERS)],
    }


def wait_for_ends(namespace: str, port: int) -> None:
    """Until the kernel has ended all connections of a server here: it may send again after their programs."""
    file, ends = Path("/proc/net", "tcp6" if FAMILY == socket.AF_INET6 else "tcp"), f":{port:04X}"
    with inside(namespace):
        while any(
            state not in OVER and ends in (local[-5:], remote[-5:])
            for _, local, remote, state, *_ in map(str.split, file.read_text().splitlines()[1:])
        ):
            time.sleep(0.05)


def snmp(namespace: str) -> dict[str, int]:
    """The kernel's own counters of TCP, of a network namespace."""
    with inside(namespace):
        lines = [line for file in ("snmp", "netstat") for line in Path("/proc/net", file).read_text().splitlines()]
    names, values = [
        [word for line in lines[first::2] if line.startswith("Tcp") for word in line.split()[1:]] for first in (0, 1)
    ]
    return {name: int(value) for name, value in zip(names, values, strict=True)}


def refused() -> dict[str, Any]:
    server = listening()
    port = server.getsockname()[1]
    server.close()
    for _ in range(COUNT):
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection((HOST, port))
    return {"port": port}


def resets() -> dict[str, Any]:
    """The server resets each connection before the client has sent or received."""
    server = listening()
    for _ in range(COUNT):
        client = socket.create_connection(server.getsockname()[:2])
        accepted, _ = server.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        accepted.close()
        with contextlib.suppress(ConnectionResetError):
            client.recv(1)
        client.close()
    return {"port": server.getsockname()[1]}


def forks() -> dict[str, Any]:
    """A server that accepts, and forks a process for each connection."""
    server = listening()

    def serve_one(connection: socket.socket) -> None:
        named("net-worker")
        connection.sendall(bytes(read_to_end(connection)))

    def serve() -> None:
        named("net-server")
        for _ in range(COUNT):
            with server.accept()[0] as connection:
                os.waitpid(forked(lambda: serve_one(connection)), 0)

    child = forked(serve)
    for _ in range(COUNT):
        with socket.create_connection(server.getsockname()[:2]) as client:
            client.sendall(bytes(1009))
            client.shutdown(socket.SHUT_WR)
            assert read_to_end(client) == 1009
    os.waitpid(child, 0)
    return {"server": child, "port": server.getsockname()[1]}


def shared() -> dict[str, Any]:
    """Two processes send over each connection; the second one is the last."""
    server = listening()
    for _ in range(COUNT):
        client = socket.create_connection(server.getsockname()[:2])
        accepted, _ = server.accept()
        client.sendall(bytes(503))
        os.waitpid(forked(lambda: (named("net-second"), client.sendall(bytes(509)))[1]), 0)  # noqa: B023
        client.close()
        assert read_to_end(accepted) == 1012
        accepted.close()
    return {"pid": os.getpid(), "port": server.getsockname()[1]}


def takes_turns() -> dict[str, Any]:
    """COUNT children send a byte over one connection, one after the other, three times."""
    server = listening()
    client = socket.create_connection(server.getsockname()[:2])
    accepted, _ = server.accept()
    turns = [os.pipe() for _ in range(COUNT)]

    def send(number: int) -> None:
        while os.read(turns[number][0], 1) == b"s":
            client.sendall(b"x")

    children = [forked(partial(send, number)) for number in range(COUNT)]
    for _ in range(3):
        for _, turn in turns:
            os.write(turn, b"s")
            assert accepted.recv(1) == b"x"
    for child, (_, turn) in zip(children, turns, strict=True):
        os.write(turn, b"e")
        os.waitpid(child, 0)
    client.close()
    return {"children": children, "port": server.getsockname()[1]}


def lives() -> dict[str, Any]:
    """One connection that sends a little again and again, and what ss says about it then. The server closes late."""
    server = listening()
    client = socket.create_connection(server.getsockname()[:2])
    accepted, _ = server.accept()
    for n in range(COUNT):
        client.sendall(bytes(1009 + n))
        assert len(accepted.recv(4096)) == 1009 + n
        time.sleep(0.03)
    port = server.getsockname()[1]
    said = subprocess.run(["ss", "-tinOHe", f"dport = :{port}"], capture_output=True, text=True, check=True).stdout
    client.shutdown(socket.SHUT_WR)
    read_to_end(accepted)
    time.sleep(0.1)
    accepted.close()
    read_to_end(client)
    client.close()
    return {"port": port, "sent": sum(1009 + n for n in range(COUNT)), "ss": said}


def stalls() -> dict[str, Any]:
    """The server does not read until the client cannot send."""
    server = listening()
    client = socket.create_connection(server.getsockname()[:2])
    accepted, _ = server.accept()
    sent = 0
    for _ in range(COUNT):
        client.setblocking(False)
        quiet = 0
        while quiet < 30:
            try:
                sent += client.send(bytes(65536))
                quiet = 0
            except BlockingIOError:
                quiet += 1
                time.sleep(0.01)
        accepted.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                accepted.recv(1 << 20)
                time.sleep(0.001)
    client.setblocking(True)
    client.close()
    accepted.setblocking(True)
    read_to_end(accepted)
    return {"port": server.getsockname()[1], "sent": sent}


def unanswered() -> dict[str, Any]:
    """Connects whose SYNs are dropped, since the server's queue is full."""
    server = socket.create_server((HOST, 0), family=FAMILY, backlog=0)
    filling = socket.create_connection(server.getsockname()[:2])
    for _ in range(COUNT):
        with contextlib.suppress(TimeoutError):
            socket.create_connection(server.getsockname()[:2], timeout=1.6)
    filling.close()
    return {"port": server.getsockname()[1]}


def failing(client: socket.socket, host: str, port: int) -> list[Any]:
    """Where a connect was to go, and its error."""
    try:
        client.connect((host, port))
    except OSError as error:
        return [host, port, error.errno]
    raise AssertionError(f"{host}:{port} answers")


def unsent() -> dict[str, Any]:
    """Connects that fail before a SYN is sent, each COUNT times; needs a network namespace of its own."""
    named("net-unsent")
    v6 = FAMILY == socket.AF_INET6
    net, length = ("2001:db8::", 128) if v6 else ("198.51.100.", 32)
    for kind, last in (("unreachable", 2), ("prohibit", 3), ("blackhole", 4)):
        subprocess.run(["ip", "route", "add", kind, f"{net}{last}/{length}"], check=True)
    failed = []
    for n in range(COUNT):
        for last in (1, 2, 3, 4):
            with socket.socket(FAMILY) as client:
                failed.append(failing(client, f"{net}{last}", 1000 + n))
                failed.append(failing(client, f"{net}{last}", 2000 + n))  # the same socket again
        with socket.socket(FAMILY) as client:
            address = struct.pack("H", FAMILY)
            assert ctypes.CDLL(None).connect(client.fileno(), address, len(address)) == -1
            failed.append([None, 0, errno.EINVAL])
    server = listening()
    port = server.getsockname()[1]
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("47002 47003")
    taken = [socket.create_connection((HOST, port)) for _ in range(2)]
    for _ in range(COUNT):
        with socket.socket(FAMILY) as client:
            failed.append(failing(client, HOST, port))
    return {"pid": os.getpid(), "port": port, "failed": failed, "connected": len(taken)}


def asked() -> dict[str, Any]:
    """Calls of connect() that begin no connection: they ask about one, or disconnect a socket."""
    server = listening()
    closed = listening()
    port = closed.getsockname()[1]
    closed.close()
    told = []
    for _ in range(COUNT):
        client = socket.socket(FAMILY)
        client.setblocking(False)
        told.append(client.connect_ex((HOST, port)))
        select.select([], [client], [])
        told.append(client.connect_ex((HOST, port)))
        client.close()
        with socket.create_connection(server.getsockname()[:2]) as client:
            told.append(client.connect_ex(server.getsockname()[:2]))
            unspecified = struct.pack("H14x", socket.AF_UNSPEC)
            told.append(ctypes.CDLL(None).connect(client.fileno(), unspecified, len(unspecified)))
    return {"refused": port, "port": server.getsockname()[1], "told": told}


print(json.dumps(globals()[HOW]()))
