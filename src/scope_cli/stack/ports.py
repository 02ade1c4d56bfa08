"""Checks that addresses are free, and finds the process that uses one."""

import errno
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from scope_cli.errors import CommandError, Interrupted, UsageError
from scope_cli.flag import Flag
from scope_views.printable import printable
from scope_wire.endpoint import Endpoint
from scope_wire.errors import InvalidAddress

_ENDING_S = 5.0
_LOCAL = ("metrics",)  # without TLS
_LISTEN = "0A"  # TCP_LISTEN, as /proc/net/tcp writes it


def checked(addresses: Mapping[str, str]) -> dict[str, Endpoint]:
    """The endpoint of each address, by the name of its option.

    Raises:
        UsageError: an address is not valid.
    """
    found = {}
    for name, address in addresses.items():
        try:
            endpoint = (Endpoint.parse_loopback if name in _LOCAL else Endpoint.parse)(address, name)
        except InvalidAddress as error:
            raise UsageError(str(error)) from None
        if not endpoint.port:
            raise UsageError(f"{name}: {address} needs a port above 0, so that the parts can find each other")
        found[name] = endpoint
    return found


def require_free(addresses: Mapping[str, str], stop: Flag) -> None:
    """Checks that no program listens on these addresses, given by the names of their options.

    If no process is seen to use an address, its process is ending: the kernel closes the files of a killed process
    after it has freed its memory. Then waits for it.

    Raises:
        UsageError: an address is not valid.
        CommandError: an address is in use; the message names the process if it is visible.
        Interrupted: `stop` was set while waiting.
    """
    end = time.monotonic() + _ENDING_S
    for name, endpoint in checked(addresses).items():
        while not _is_free(endpoint):
            user = _named(endpoint.port)
            if user or time.monotonic() > end:
                raise CommandError(
                    f"{addresses[name]} is used by another program{user}; stop it, or choose another with --{name}"
                )
            if stop.wait(0.1):
                raise Interrupted


def _is_free(endpoint: Endpoint) -> bool:
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    try:
        with socket.socket(family) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the parts do
            tried.bind((endpoint.host, endpoint.port))
            tried.listen()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise CommandError(f"cannot listen on {endpoint}: {error.strerror}") from None
        return False
    return True


def _named(port: int) -> str:
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and sockets & _open_files(folder):
            with suppress(OSError):
                name = (folder / "comm").read_text(errors="replace").removesuffix("\n")
                return f" (pid {folder.name}, {printable(name)})"
    return ""


def _open_files(folder: Path) -> set[str]:
    found = set()
    with suppress(OSError):  # the process ended meanwhile, or belongs to another user
        for descriptor in (folder / "fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                found.add(str(descriptor.readlink()))
    return found


def _listening(port: int) -> list[str]:
    """The inodes of sockets that listen on a port, on any address."""
    found = []
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path("/proc/net", table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    found.append(fields[9])
    return found
