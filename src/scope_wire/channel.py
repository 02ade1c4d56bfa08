"""Options of gRPC connections: a peer that went silent is noticed within 15 s, on either side."""

from scope_wire.limits import KEEPALIVE_MS, KEEPALIVE_TIMEOUT_MS, MESSAGE_BYTES

Options = list[tuple[str, int]]

# With keepalive on, gRPC also sets TCP_USER_TIMEOUT to its timeout: data that nobody acknowledges ends the connection.
_BOTH: Options = [
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),  # else a minute, whatever the one above says
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
]


def client_options() -> Options:
    """For a channel."""
    # Reconnecting is ours: a channel is made anew each time, so gRPC's own growing pauses must not add to it.
    return [*_BOTH, ("grpc.enable_retries", 0)]


def server_options() -> Options:
    """For a server."""
    return [*_BOTH, ("grpc.so_reuseport", 0), ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2)]
