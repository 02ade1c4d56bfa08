"""Addresses of sockets, struct sockaddr and its kin, as strace shows them."""

import socket
import struct
from collections.abc import Callable, Mapping

from scope_bpf.probes.syscalls.names import FAMILIES
from scope_bpf.probes.syscalls.quoting import quoted


def socket_address(value: bytes) -> str:
    """`{sa_family=AF_INET, sin_port=htons(80), ...}`; what is too short for its family is shown as bytes."""
    if len(value) < 2:
        return quoted(value)
    family = int.from_bytes(value[:2], "little")
    least, members = _MEMBERS.get(family, (2, _data))
    shown = members(value) if len(value) >= least else _data(value)
    return f"{{sa_family={FAMILIES.get(family, f'{family:#x} /* AF_??? */')}{shown}}}"


def _data(value: bytes) -> str:
    return f", sa_data={quoted(value[2:])}"


def _inet(value: bytes) -> str:
    (port,) = struct.unpack_from(">H", value, 2)
    return f', sin_port=htons({port}), sin_addr=inet_addr("{socket.inet_ntoa(value[4:8])}")'


def _inet6(value: bytes) -> str:
    port, flow = struct.unpack_from(">HI", value, 2)
    (scope,) = struct.unpack_from("<I", value, 24)
    return (
        f", sin6_port=htons({port}), sin6_flowinfo=htonl({flow}), "
        f'inet_pton(AF_INET6, "{socket.inet_ntop(socket.AF_INET6, value[8:24])}", &sin6_addr), sin6_scope_id={scope}'
    )


def _unix(value: bytes) -> str:
    path = value[2:]
    if path[:1] == b"\0":
        return f", sun_path=@{quoted(path[1:])}"  # abstract: all bytes count
    return f", sun_path={quoted(path.partition(bytes(1))[0])}" if path else ""


def _netlink(value: bytes) -> str:
    process, groups = struct.unpack_from("<II", value, 4)
    return f", nl_pid={process}, nl_groups={groups:08x}"


_MEMBERS: Mapping[int, tuple[int, Callable[[bytes], str]]] = {  # by family, and the least size of it, in bytes
    socket.AF_INET: (8, _inet),
    socket.AF_INET6: (28, _inet6),
    socket.AF_UNIX: (2, _unix),
    socket.AF_NETLINK: (12, _netlink),
}
