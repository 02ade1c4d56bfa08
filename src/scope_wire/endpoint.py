"""Where a service is, and what is shown there: one class for both sides of a connection."""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scope_wire.errors import InvalidAddress

if TYPE_CHECKING:  # cryptography takes 50 ms, and most commands only read an address
    from scope_wire.keys import Anonymous, Credentials

_MOST_PORT = 65535
_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*")


def host_names(hosts: tuple[str, ...], name: str) -> None:
    """A check for names and addresses without ports.

    Raises:
        InvalidAddress: one is neither.
    """
    for host in hosts:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            if not _NAME.fullmatch(host):
                raise InvalidAddress(
                    f"{name}: {host!r} is neither a name nor an address, such as scope.example.org; leave out the port"
                ) from None


@dataclass(frozen=True)
class Endpoint:
    """The address of a service, and the credentials of the side that has this object: it listens there, or calls.

    Attributes:
        host: a name or an address, without brackets.
        port: 0, of a service that will listen: any.
        credentials: asked at each handshake, so a renewed certificate is shown at once. None: plain text, or not known.
    """

    host: str
    port: int
    credentials: "Callable[[], Credentials | Anonymous] | None" = None

    @classmethod
    def parse(cls, text: str, name: str) -> "Endpoint":
        """The endpoint in `HOST:PORT`; error messages call the setting `name`.

        Raises:
            InvalidAddress: the text is not HOST:PORT.
        """
        host, colon, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        if (
            not colon
            or "[" in host
            or "]" in host
            or not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= _MOST_PORT)
        ):
            raise InvalidAddress(f"{name}: {text!r} is not host:port, such as 127.0.0.1:8470")
        if not host:
            raise InvalidAddress(
                f"{name}: {text!r} has no host; write 0.0.0.0:{port} for all addresses of this machine"
            )
        return cls(host, int(port))

    @classmethod
    def parse_loopback(cls, text: str, name: str) -> "Endpoint":
        """The same, for a service without TLS.

        Raises:
            InvalidAddress: the text is not HOST:PORT, or others could connect.
        """
        found = cls.parse(text, name)
        if not found.is_loopback:
            raise InvalidAddress(
                f"{name}: {found.host!r} is not a loopback address; use 127.0.0.1, [::1] or localhost, because this "
                "service has no TLS"
            )
        return found

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_everywhere(self) -> bool:
        """Whether a service there listens on all addresses of its machine; others need a name or an address of it."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def at(self, *, host: str | None = None, port: int | None = None) -> "Endpoint":
        """The same with another host or port."""
        return replace(self, host=self.host if host is None else host, port=self.port if port is None else port)

    def showing(self, credentials: "Callable[[], Credentials | Anonymous]") -> "Endpoint":
        """The same with these credentials."""
        return replace(self, credentials=credentials)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
