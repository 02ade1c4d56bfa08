"""HTTP for the command line: plain on loopback, else TLS 1.3, and no proxy, since none knows these servers."""

import ssl
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from scope_wire.identity import SERVER_NAME
from scope_wire.unix_socket import connected


def socket_opener(socket: str) -> OpenerDirector:
    """Opens URLs of http:// at a Unix socket, whatever their hosts."""

    class Connection(HTTPConnection):
        def connect(self) -> None:
            self.sock = connected(Path(socket), self.timeout)

    class Handler(HTTPHandler):
        def http_open(self, request: Request) -> Any:
            return self.do_open(Connection, request)

    return build_opener(ProxyHandler({}), Handler())


def opener(authority: str | None) -> OpenerDirector:
    """Opens URLs of a server whose certificate is of these authorities, in PEM; None: of one that this machine trusts.

    Raises:
        ssl.SSLError: the text has no certificate.
    """
    from scope_wire.https import calling

    if authority is None:
        trusting = ssl.create_default_context()
        trusting.minimum_version = ssl.TLSVersion.TLSv1_3
        return build_opener(ProxyHandler({}), HTTPSHandler(context=trusting))
    return build_opener(ProxyHandler({}), _FleetHandler(calling(authority)))


def careless_opener() -> OpenerDirector:
    """Opens URLs of any server, for what is then compared with a fingerprint."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return build_opener(ProxyHandler({}), HTTPSHandler(context=context))


class _FleetHandler(HTTPSHandler):
    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._fleet = context

    def https_open(self, request: Request) -> Any:
        return self.do_open(_FleetConnection, request, context=self._fleet)  # type: ignore[arg-type]  # as HTTPSHandler


class _FleetConnection(HTTPSConnection):
    """The server must have the name of all servers of the fleet, whatever address it was reached at."""

    def __init__(self, host: str, *, context: ssl.SSLContext, **given: Any) -> None:
        super().__init__(host, context=context, **given)
        self._fleet = context

    def connect(self) -> None:
        HTTPConnection.connect(self)
        self.sock = self._fleet.wrap_socket(self.sock, server_hostname=SERVER_NAME)
