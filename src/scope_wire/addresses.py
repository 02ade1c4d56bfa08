"""Checked addresses, host:port."""

import ipaddress

from scope_wire.errors import InvalidAddress


def address(text: str, name: str) -> tuple[str, int]:
    """Host and port of `text`; error messages call the setting `name`.

    Raises:
        InvalidAddress: the text is not host:port.
    """
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not colon or not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535):
        raise InvalidAddress(f"{name}: {text!r} is not host:port, such as 127.0.0.1:8470")
    return host, int(port)


def loopback_address(text: str, name: str) -> tuple[str, int]:
    """Host and port of `text`; error messages call the setting `name`.

    Raises:
        InvalidAddress: the text is not host:port, or the host is not a loopback address.
    """
    host, port = address(text, name)
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise InvalidAddress(f"{name}: {host!r} is not a loopback address; use 127.0.0.1, [::1] or localhost")
    return host, port
