"""Unix sockets at paths of any length: the kernel takes 107 bytes (sun_path in linux/un.h), so they are reached through
their directory's descriptor."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def listening(path: Path) -> socket.socket:
    """A new socket, which only its owner may use. Replaces one that nobody listens at.

    Raises:
        OSError: somebody listens there, or it cannot be made.
    """
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as short:
            if path.is_socket():
                _require_left(short)
                path.unlink()
            before = os.umask(0o177)
            try:
                made.bind(short)
            finally:
                os.umask(before)
        made.listen(128)
    except BaseException:
        made.close()
        raise
    return made


def connected(path: Path, timeout_s: float | None) -> socket.socket:
    """A connection to what listens there.

    Raises:
        OSError: nothing does.
    """
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(timeout_s)
    try:
        with _short(path) as short:
            made.connect(short)
    except BaseException:
        made.close()
        raise
    return made


def _require_left(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(1.0)
        try:
            trial.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return
    raise OSError("another program listens there")


@contextmanager
def _short(path: Path) -> Iterator[str]:
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
