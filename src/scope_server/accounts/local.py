"""The machine's own users, known by the kernel: whoever may open the server's Unix socket is the one it runs as, or
root."""

import os
import pwd
import socket
import struct

from scope_server.accounts.caller import Caller, Role

_PEER = struct.Struct("3i")  # pid, uid, gid: struct ucred in linux/socket.h


def person_at(connection: socket.socket) -> Caller | None:
    """Who is at the other end of a Unix socket, an admin; None if it is another kind of socket, or another user."""
    if connection.family != socket.AF_UNIX:
        return None
    _, uid, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return Caller(f"{_name(uid)} (local)", Role.ADMIN) if uid in (0, os.geteuid()) else None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a container has none
        return f"uid {uid}"
