"""Options of gRPC connections: both sides notice within 15 s that the other is silent."""

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


def client_options() -> Options:
    """For a channel."""
    # SCOPE reconnects with a new channel each time, so gRPC's own growing pauses must not add up with ours.
    return [*_BOTH, ("grpc.enable_retries", 0)]


def server_options() -> Options:
    """For a server."""
    return [*_BOTH, ("grpc.so_reuseport", 0), ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2)]
