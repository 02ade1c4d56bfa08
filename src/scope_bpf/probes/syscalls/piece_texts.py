"""What is shown of the bytes that the programs have read, by kind of piece, as strace -yy shows it."""

import ipaddress
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from scope_bpf.probes.syscalls.addresses import socket_address
from scope_bpf.probes.syscalls.quoting import bracketed, quoted

_CUT, _DELETED = 1, 2  # PIECE_CUT and PIECE_DELETED in syscalls.h: macros, of which BTF knows nothing

# File systems that nobody mounts: include/uapi/linux/magic.h
_PIPES, _SOCKETS, _ANONYMOUS, _NAMESPACES, _PROCESSES = 0x50495045, 0x534F434B, 0x09041934, 0x6E736673, 0x50494446

Structs = Mapping[str, np.dtype[Any]]


def _string(value: bytes, flags: int, _: Structs) -> str:
    return quoted(value) + "..." * bool(flags & _CUT)


def _words(value: bytes, flags: int, _: Structs) -> str:
    words = [quoted(word) for word in value.split(b"\0")[:-1]]
    return f"[{', '.join(words + ['...'] * bool(flags & _CUT))}]"


def path_of(value: bytes) -> bytes:
    """The absolute path in the bytes of a TEXT_FILE: names from the file up, each followed by a '/'."""
    return b"/" + b"/".join(value.split(b"/")[-2::-1])


def _file(value: bytes, flags: int, _: Structs) -> str:
    return bracketed(b"..." * bool(flags & _CUT) + path_of(value)) + "(deleted)" * bool(flags & _DELETED)


def _unnamed(value: bytes, _flags: int, structs: Structs) -> str:
    layout = structs["syscall_unnamed"]
    (what,) = np.frombuffer(value[: layout.itemsize], layout)
    name, inode = value[layout.itemsize :], what["inode"]
    kinds = {_PIPES: "pipe", _SOCKETS: "socket", _PROCESSES: "pidfd"}
    if kind := kinds.get(int(what["magic"])):
        return f"<{kind}:[{inode}]>"
    if what["magic"] == _ANONYMOUS:
        return bracketed(b"anon_inode:" + name)
    if what["magic"] == _NAMESPACES:
        return bracketed(name + b":[%d]" % inode)
    return bracketed(b"/" + name) + "(deleted)"  # as memfd_create makes them


def _socket(value: bytes, _flags: int, structs: Structs) -> str:
    (what,) = np.frombuffer(value, structs["syscall_socket"])
    is_v6 = what["family"] == socket.AF_INET6
    protocols = {socket.IPPROTO_TCP: "TCP", socket.IPPROTO_UDP: "UDP", socket.IPPROTO_ICMP: "ICMP"}
    protocol = protocols.get(int(what["protocol"]), f"IP {what['protocol']}") + "v6" * bool(is_v6)
    own = _end(what["address"], what["port"], is_v6)
    peer = "->" + _end(what["peer_address"], what["peer_port"], is_v6) if what["peer_port"] else ""
    return f"<{protocol}:[{own + peer if what['port'] else what['inode']}]>"


def _end(address: Any, port: int, is_v6: bool) -> str:
    if is_v6:
        return f"[{ipaddress.IPv6Address(address.tobytes())}]:{port}"
    return f"{ipaddress.IPv4Address(address[:4].tobytes())}:{port}"


PIECE_TEXTS: Mapping[str, Callable[[bytes, int, Structs], str]] = {
    "TEXT_STRING": _string,
    "TEXT_DATA": _string,
    "TEXT_ADDRESS": lambda value, _flags, _: socket_address(value),
    "TEXT_WORDS": _words,
    "TEXT_PAIR": lambda value, _flags, _: "{}, {}".format(*struct.unpack("<ii", value)),
    "TEXT_FILE": _file,
    "TEXT_UNNAMED": _unnamed,
    "TEXT_SOCKET": _socket,
}
