"""gRPC connections: TLS with certificates of one authority; both sides notice within 15 s that the other is silent."""

from collections.abc import Callable
from typing import Any

import grpc

from scope_wire.endpoint import Endpoint
from scope_wire.keys import Anonymous, Credentials, pem_of
from scope_wire.limits import CALLER_KEEPALIVE_MS, KEEPALIVE_TIMEOUT_MS, LISTENER_KEEPALIVE_MS, MESSAGE_BYTES
from scope_wire.refused.rate import bound_log_of_grpc

Options = list[tuple[str, int]]

_PUSHBACK = "grpc-retry-pushback-ms"  # gRPC's trailing metadata of a refused call: when to try it again
_DIGITS = 9  # of milliseconds: eleven days; a longer text is no time

# With keepalive, gRPC also sets TCP_USER_TIMEOUT to its timeout: unacknowledged data ends the connection.
_BOTH: Options = [
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),  # default: a minute, whatever keepalive_timeout_ms says
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
]


def open_channel(to: Endpoint, peer: str) -> grpc.aio.Channel:
    """A channel to the one that has the DNS name `peer` in its certificate; shows the endpoint's credentials.

    Raises:
        ValueError: the endpoint has no credentials.
    """
    if to.credentials is None:
        raise ValueError(f"{to} has no credentials")
    # SCOPE reconnects with a new channel each time, so gRPC's own growing pauses must not add up with ours.
    options = [
        *_BOTH,
        ("grpc.keepalive_time_ms", CALLER_KEEPALIVE_MS),
        ("grpc.enable_retries", 0),
        ("grpc.ssl_target_name_override", peer),
    ]
    return grpc.aio.secure_channel(str(to), channel_credentials(to.credentials()), options=options)


def pushback(in_s: float) -> tuple[tuple[str, str]]:
    """The trailing metadata of a refused call that is to be tried again after so many seconds."""
    return ((_PUSHBACK, f"{1000 * in_s:.0f}"),)


def pushback_s(error: grpc.aio.AioRpcError) -> float | None:
    """After how many seconds the one who refused a call wants it to be tried again; None: it does not say so."""
    told: Any = error.trailing_metadata()
    value = str(dict(told or {}).get(_PUSHBACK, ""))
    return int(value) / 1000 if value.isdecimal() and len(value) <= _DIGITS else None


def channel_credentials(own: Credentials | Anonymous) -> grpc.ChannelCredentials:
    """For a channel: shows the certificate, if there is one, and accepts those of the same authority."""
    trusted = b"".join(map(pem_of, own.authorities))
    if isinstance(own, Anonymous):
        return grpc.ssl_channel_credentials(trusted)
    return grpc.ssl_channel_credentials(trusted, pem_of(own.key), pem_of(own.certificate))


def listen(server: grpc.aio.Server, at: Endpoint, *, of_clients: bool) -> Endpoint:
    """Has a server listen at an endpoint, with its credentials; returns the endpoint with the port that it got.

    Args:
        of_clients: whether clients must have a certificate of the same authority; else they show none.

    Raises:
        OSError: another program listens there, or it is no address of this machine.
        ValueError: the endpoint has no credentials.
    """
    if at.credentials is None:
        raise ValueError(f"{at} has no credentials")
    bound_log_of_grpc()
    try:
        return at.at(port=server.add_secure_port(str(at), _server_credentials(at.credentials, of_clients)))
    except RuntimeError as error:
        raise OSError(str(error)) from None


def _server_credentials(current: Callable[[], Credentials | Anonymous], of_clients: bool) -> grpc.ServerCredentials:
    """Asks for the credentials at each handshake, in a thread of gRPC."""

    def own() -> Credentials:
        credentials = current()
        if isinstance(credentials, Anonymous):
            raise ValueError("a server needs a certificate")
        return credentials

    shown = own()

    def configuration() -> grpc.ServerCertificateConfiguration:
        pair = pem_of(shown.key), pem_of(shown.certificate)
        trusted = b"".join(map(pem_of, shown.authorities))
        return grpc.ssl_server_certificate_configuration([pair], trusted if of_clients else None)

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal shown
        before, shown = shown, own()
        return None if shown is before else configuration()

    return grpc.dynamic_ssl_server_credentials(configuration(), changed, of_clients)  # type: ignore[arg-type]  # or None


def server_options() -> Options:
    """For a server."""
    return [
        *_BOTH,
        ("grpc.keepalive_time_ms", LISTENER_KEEPALIVE_MS),
        ("grpc.so_reuseport", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", CALLER_KEEPALIVE_MS // 2),
    ]
