"""HTTPS with certificates of the fleet's authority: TLS 1.3, for the side that serves and the side that calls."""

import os
import ssl
from collections.abc import Callable

from scope_wire.keys import Credentials, pem_of


def serving(current: Callable[[], Credentials]) -> ssl.SSLContext:
    """For a server; `current` is asked at each handshake, so renewed credentials are shown at once."""
    shown = current()
    context = latest = _showing(shown)

    def choose(connection: ssl.SSLObject, *_: object) -> None:
        nonlocal shown, latest
        if (now := current()) is not shown:
            shown, latest = now, _showing(now)
        connection.context = latest

    context.sni_callback = choose  # is also called for a client that names no server
    return context


def calling(authorities: str) -> ssl.SSLContext:
    """For a client that accepts certificates of these authorities, in PEM.

    Raises:
        ssl.SSLError: the text has no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authorities)
    return context


def _showing(credentials: Credentials) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    pem = pem_of(credentials.key) + pem_of(credentials.certificate)
    with os.fdopen(os.memfd_create("credentials"), "wb", buffering=0) as file:  # ssl reads only files
        file.write(pem)
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context
