"""What docs/bcc.md's commands record: known sessions, programs and files.

usage: bcc_tasks.py sessions|programs|opens     sessions needs a network of its own; waits for a line on its input first
"""

import contextlib
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

USER = 1000
SESSIONS = {(socket.AF_INET, "127.0.0.1", 80): 3, (socket.AF_INET, "127.0.0.1", 81): 2, (socket.AF_INET6, "::1", 80): 1}


def in_child(work: Callable[[], None], user: int = 0) -> None:
    if not (pid := os.fork()):
        with contextlib.suppress(OSError):
            os.setresuid(user, user, user)
            work()
        os._exit(0)
    os.waitpid(pid, 0)


def session(family: int, host: str, port: int, server: socket.socket) -> None:
    with socket.socket(family) as client:
        client.connect((host, port))
        client.sendall(b"x" * 101)
        with server.accept()[0] as peer:
            peer.recv(101)
            peer.sendall(b"y" * 7)
            client.recv(7)


def sessions() -> None:
    """Those of SESSIONS, one of another user, and a connect that is refused."""
    servers = {place: socket.create_server(place[1:], family=place[0]) for place in SESSIONS}
    for place, count in SESSIONS.items():
        for _ in range(count):
            session(*place, servers[place])
    first = next(iter(SESSIONS))
    in_child(lambda: session(*first, servers[first]), USER)
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", 9))


def programs() -> None:
    """Five programs, one of them by another user, and a file that there is not."""
    for words in (["true"], ["true"], ["mount", "--version"], ["echo", "testpkg"], ["nonexistent"]):
        in_child(lambda words=words: os.execv(f"/bin/{words[0]}", words))
    in_child(lambda: os.execv("/bin/true", ["true"]), USER)


def opens() -> None:
    """Files of the folder that this runs in: read, written, and one that there is not; then by a thread named `ed`."""
    os.mknod("read")
    for _ in range(3):
        os.close(os.open("read", os.O_RDONLY))
    for _ in range(2):
        with contextlib.suppress(FileNotFoundError):
            os.open("nonexistent", os.O_RDONLY)
    for flags in (os.O_WRONLY, os.O_RDWR):
        os.close(os.open("read", flags))
    Path("/proc/self/comm").write_text("ed")
    os.close(os.open("read", os.O_RDONLY))


sys.stdin.readline()
globals()[sys.argv[1]]()
