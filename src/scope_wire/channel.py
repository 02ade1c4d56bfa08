"""gRPC connections: TLS with certificates of one authority; both sides notice within 15 s that the other is silent."""

from collections.abc import Callable

import grpc

from scope_wire.keys import Credentials, pem_of
from scope_wire.limits import KEEPALIVE_MS, KEEPALIVE_TIMEOUT_MS, MESSAGE_BYTES

Options = list[tuple[str, int]]

# With keepalive, gRPC also sets TCP_USER_TIMEOUT to its timeout: unacknowledged data ends the connection.
_BOTH: Options = [
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),  # default: a minute, whatever keepalive_timeout_ms says
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
]


def secure_channel(address: str, credentials: grpc.ChannelCredentials, name: str) -> grpc.aio.Channel:
    """A channel to the one that has this DNS name in its certificate, at host:port."""
    # SCOPE reconnects with a new channel each time, so gRPC's own growing pauses must not add up with ours.
    options = [*_BOTH, ("grpc.enable_retries", 0), ("grpc.ssl_target_name_override", name)]
    return grpc.aio.secure_channel(address, credentials, options=options)


def client_credentials(own: Credentials) -> grpc.ChannelCredentials:
    """For a channel: shows the certificate, and accepts those of the same authority."""
    return grpc.ssl_channel_credentials(pem_of(own.authority), pem_of(own.key), pem_of(own.certificate))


def server_credentials(current: Callable[[], Credentials], *, of_clients: bool) -> grpc.ServerCredentials:
    """For a server.

    Args:
        current: called at each handshake, in a thread of gRPC; the credentials to show now.
        of_clients: whether clients must have a certificate of the same authority; else they show none.
    """
    shown = current()

    def configuration() -> grpc.ServerCertificateConfiguration:
        pair = pem_of(shown.key), pem_of(shown.certificate)
        return grpc.ssl_server_certificate_configuration([pair], pem_of(shown.authority) if of_clients else None)

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal shown
        before, shown = shown, current()
        return None if shown is before else configuration()

    return grpc.dynamic_ssl_server_credentials(configuration(), changed, of_clients)  # type: ignore[arg-type]  # or None


def server_options() -> Options:
    """For a server."""
    return [*_BOTH, ("grpc.so_reuseport", 0), ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2)]
