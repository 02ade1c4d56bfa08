"""A DNS server on 127.0.0.1 and ::1 (port 53, in a network namespace of its own), and a client that asks it.

usage: resolving.py HOW COUNT     prints as JSON what was asked; the server's answer depends on the name's first label,
and it knows no name in first.test
"""

import contextlib
import json
import os
import socket
import struct
import sys
import time
from pathlib import Path

HOW, COUNT = sys.argv[1], int(sys.argv[2])
TYPES = {"a": 1, "aaaa": 28, "txt": 16}
CODES = {"nx": 3, "fails": 2, "no": 5}
ADDRESSES = {1: socket.inet_aton("192.0.2.7"), 28: socket.inet_pton(socket.AF_INET6, "2001:db8::7")}


def query(number: int, name: str, kind: int) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label)
    return struct.pack("!6H", number, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!BHH", 0, kind, 1)


def answer(asked: bytes) -> bytes | None:
    """An alias and an address; or an error; or nothing for names that begin with `lost`."""
    first = asked[13 : 13 + asked[12]].decode()
    if first == "lost":
        return None
    end = asked.index(0, 12) + 5
    (kind,) = struct.unpack("!H", asked[end - 4 : end - 2])
    code = CODES["nx"] if b"\x05first\x04test" in asked else CODES.get(first, 0)
    records = []
    if not code and kind in ADDRESSES:
        alias = b"\x05other\xc0\x0c"
        records = [struct.pack("!HHHIH", 0xC00C, 5, 1, 60, len(alias)) + alias]
        its_place = 0xC000 | (end + 12)  # behind the head of its record
        records.append(struct.pack("!HHHIH", its_place, kind, 1, 60, len(ADDRESSES[kind])) + ADDRESSES[kind])
    return asked[:2] + struct.pack("!5H", 0x8180 | code, 1, len(records), 0, 0) + asked[12:end] + b"".join(records)


def serve(server: socket.socket) -> None:
    Path("/proc/self/comm").write_text("dns-server")
    while True:
        if server.type == socket.SOCK_STREAM:
            with server.accept()[0] as connection:
                if told := answer(connection.recv(4096)[2:]):
                    connection.sendall(struct.pack("!H", len(told)) + told)
        else:
            asked, client = server.recvfrom(4096)
            if told := answer(asked):
                time.sleep(0.002)
                server.sendto(told, client)


def started() -> list[int]:
    pids = []
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            server = socket.socket(family, kind)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((host, 53))
            if kind == socket.SOCK_STREAM:
                server.listen()
            if not (pid := os.fork()):
                serve(server)
            pids.append(pid)
    return pids


def ask(name: str, kind: str, host: str = "127.0.0.1", times: int = 1, wait_s: float = 5) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.settimeout(wait_s)
        client.connect((host, 53))
        for _ in range(times):
            client.send(query(4711, name, TYPES[kind]))
        with contextlib.suppress(TimeoutError):
            client.recv(4096)


def ask_by_tcp(name: str, kind: str) -> None:
    with socket.create_connection(("127.0.0.1", 53)) as client:
        asked = query(4711, name, TYPES[kind])
        client.sendall(struct.pack("!H", len(asked)) + asked)
        client.recv(4096)


def many() -> None:
    for n in range(COUNT):
        ask(f"name{n}.example.test", ("a", "aaaa", "txt")[n % 3], ("127.0.0.1", "::1")[n % 2])


def codes() -> None:
    for first in CODES:
        for _ in range(COUNT):
            ask(f"{first}.example.test", "a")


def tcp() -> None:
    for n in range(COUNT):
        ask_by_tcp(f"stream{n}.example.test", "a")


def lost() -> None:
    for n in range(COUNT):
        ask(f"lost.name{n}.test", "a", times=3, wait_s=0.01)
    time.sleep(2.5)
    ask("lost.late.test", "a", wait_s=0.01)


def resolver() -> None:
    """The C library's own resolver; /etc/resolv.conf names 127.0.0.1."""
    for n in range(COUNT):
        with contextlib.suppress(OSError):
            socket.getaddrinfo(f"library{n}.example.test", None, socket.AF_INET)


def fetch() -> None:
    """Looks up the IPv4 and IPv6 addresses of names, and sends each a byte over TCP, to a server of this process."""
    with socket.create_server(("192.0.2.7", 8080)) as server:
        for n in range(COUNT):
            found = socket.getaddrinfo(f"site{n}.example.test", 8080, type=socket.SOCK_STREAM)
            (address,) = [address for family, *_, address in found if family == socket.AF_INET]
            with socket.create_connection(address) as client, server.accept()[0] as peer:
                client.sendall(b"x")
                peer.recv(1)


def serve_others() -> None:
    """Clients come from elsewhere, until the input ends."""
    print(os.getpid(), flush=True)
    sys.stdin.read()


servers = started()
time.sleep(0.1)
try:
    globals()[HOW]()
finally:
    for pid in servers:
        os.kill(pid, 9)
print(json.dumps({"servers": servers, "client": os.getpid()}))
