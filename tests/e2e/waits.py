"""Waits for a lock that another thread holds, for a disk and for a peer. It stops itself first, to be traced whole.

Usage: waits.py FILE
"""

import ctypes
import mmap
import os
import signal
import socket
import sys
import threading
import time

ROUNDS = 7
SENT, ANSWERED = 4099, 1031  # bytes a round
BLOCK = 4096

libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)


def wait_for_a_lock() -> None:
    """Of threads of C: Python's own locks do not say in memory who holds them."""
    held, asked = threading.Barrier(2), threading.Barrier(2)

    def hold() -> None:
        libc.prctl(15, b"holds", 0, 0, 0)  # PR_SET_NAME
        for _ in range(ROUNDS):
            libc.pthread_mutex_lock(mutex)
            held.wait()
            time.sleep(0.05)
            libc.pthread_mutex_unlock(mutex)
            asked.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    for _ in range(ROUNDS):
        held.wait()
        libc.pthread_mutex_lock(mutex)
        libc.pthread_mutex_unlock(mutex)
        asked.wait()
    holder.join()


def wait_for_a_disk(path: str) -> None:
    """Writes that the disk has to take at once."""
    page = mmap.mmap(-1, BLOCK)  # aligned, as O_DIRECT wants it
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    for number in range(ROUNDS):
        os.pwrite(file, page, number * BLOCK)
    os.close(file)


def wait_for_a_peer() -> None:
    """One connection, to itself."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        peer, _ = server.accept()
        with peer:
            for _ in range(ROUNDS):
                client.sendall(b"x" * SENT)
                peer.recv(SENT, socket.MSG_WAITALL)
                peer.sendall(b"y" * ANSWERED)
                client.recv(ANSWERED, socket.MSG_WAITALL)


if __name__ == "__main__":
    os.kill(os.getpid(), signal.SIGSTOP)
    wait_for_a_lock()
    wait_for_a_disk(sys.argv[1])
    wait_for_a_peer()
