"""Connections to a server in another network namespace, and what TCP_INFO says of both ends once they are over.

usage: far_talk.py HOST NETNS COUNT BYTES HOW     prints JSON

Each client sends BYTES by one call. The server answers with a byte when it has got them all. HOW is who closes first:
`client` or `both`; or `never`: the client gives up, since nothing that it sends arrives; or `waits`: the client tells
TCP_INFO after each of COUNT exchanges over one connection, begins and goes on when its standard input has a line.
"""

import contextlib
import ctypes
import json
import os
import socket
import struct
import sys
import time
from pathlib import Path

HOST, NETNS, COUNT, BYTES, HOW = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
TCP_CLOSE = 7
GIVES_UP_MS = 700

# linux/tcp.h
OFFSETS = {"rtt": (68, "I"), "total_retrans": (100, "I"), "segs_out": (136, "I"), "segs_in": (140, "I")} | {
    "min_rtt": (148, "I"),
    "bytes_retrans": (208, "Q"),
    "reord_seen": (220, "I"),
    "rcv_ooopack": (224, "I"),
}


def info(end: socket.socket) -> dict[str, int]:
    told = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return {name: struct.unpack_from(form, told, offset)[0] for name, (offset, form) in OFFSETS.items()}


def info_of_closed(end: socket.socket) -> dict[str, int]:
    """Once the connection is over."""
    while end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)[0] != TCP_CLOSE:
        time.sleep(0.01)
    return info(end)


def read(end: socket.socket, left: int) -> None:
    while left:
        got = len(end.recv(left))
        assert got
        left -= got


def serve(listening: socket.socket, told: int) -> None:
    """Serves the clients one after the other; tells TCP_INFO of its end of each."""
    for _ in range(COUNT if HOW != "waits" else 1):
        end, _ = listening.accept()
        with contextlib.suppress(OSError, AssertionError):
            while True:
                read(end, BYTES)
                end.sendall(b"x")
                if HOW == "both":
                    end.shutdown(socket.SHUT_WR)
        if HOW != "never":
            if HOW != "both":
                end.shutdown(socket.SHUT_WR)
            os.write(told, (json.dumps(info_of_closed(end)) + "\n").encode())


def talk(end: socket.socket) -> None:
    end.sendall(bytes(BYTES))
    read(end, 1)


def main() -> None:
    with Path("/proc/self/ns/net").open() as own, Path(NETNS).open() as far:
        ctypes.CDLL(None).setns(far.fileno(), 0)
        listening = socket.create_server((HOST, 0))
        ctypes.CDLL(None).setns(own.fileno(), 0)
    reading, told = os.pipe()
    if not (server := os.fork()):
        Path("/proc/self/comm").write_text("far-server")
        serve(listening, told)
        os._exit(0)
    os.close(told)
    Path("/proc/self/comm").write_text("far-client")
    infos, errors = [], []
    if HOW == "waits":
        sys.stdin.readline()
    for _ in range(COUNT if HOW != "waits" else 1):
        client = socket.create_connection(listening.getsockname())
        if HOW == "waits":
            for _ in range(COUNT):
                talk(client)
                told_now = {"at_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME), **info(client)}
                print(json.dumps(told_now), flush=True)
                sys.stdin.readline()
        elif HOW == "never":
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GIVES_UP_MS)
            try:
                talk(client)
            except OSError as error:
                errors.append(error.errno)
            continue
        else:
            talk(client)
        client.shutdown(socket.SHUT_WR)
        assert not client.recv(1)
        infos.append(info_of_closed(client))
    if HOW == "never":
        os.kill(server, 9)
    os.waitpid(server, 0)
    with os.fdopen(reading) as lines:
        servers = [json.loads(line) for line in lines]
    ends = {"client": infos, "server": servers}
    pids = {"client_pid": os.getpid(), "server_pid": server}
    print(json.dumps({"port": listening.getsockname()[1], "errors": errors, **ends, **pids}))


main()
