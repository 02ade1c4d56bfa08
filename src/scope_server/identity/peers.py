"""The addresses of callers, as gRPC tells them."""

from urllib.parse import unquote


def address_of(peer: str) -> str:
    """The address without its kind and port: `192.0.2.1` of `ipv4:192.0.2.1:5000`; that of a Unix socket as it is."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return peer
    return unquote(rest).rpartition(":")[0].strip("[]")
