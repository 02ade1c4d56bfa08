"""Where an agent's local bus is.

STATE/bus/         only its owner may enter (0700): this alone decides who may read events
STATE/bus/socket   the socket
"""

from pathlib import Path

from scope_wire.errors import InvalidAddress

MOST_PATH_BYTES = 107  # sun_path of struct sockaddr_un, without the final zero


def socket_path(state: Path, name: str = "state directory") -> Path:
    """The socket of the agent with this state directory; errors call it `name`.

    Raises:
        InvalidAddress: the path is too long for a socket.
    """
    path = state.absolute() / "bus" / "socket"
    length = len(bytes(path))
    if length > MOST_PATH_BYTES:
        raise InvalidAddress(
            f"{name}: the local bus would be {path}, which has {length} bytes; a socket's path has at most "
            f"{MOST_PATH_BYTES}; choose a shorter directory"
        )
    return path
