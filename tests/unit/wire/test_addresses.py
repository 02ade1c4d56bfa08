"""Addresses are host:port, and only loopback hosts are accepted."""

import pytest

from scope_wire.addresses import loopback_address
from scope_wire.errors import InvalidAddress


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:8470", ("::1", 8470)), ("localhost:65535", ("localhost", 65535))],
)
def test_loopback_addresses_are_taken(text: str, parsed: tuple[str, int]) -> None:
    """IPv4, IPv6 and localhost addresses are split into host and port."""
    assert loopback_address(text, "http") == parsed


@pytest.mark.parametrize(
    "text", ["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "host:1", "127.0.0.1", "127.0.0.1:65536", "127.0.0.1:\u0661", ""]
)
def test_all_others_are_refused_by_name(text: str) -> None:
    """Any other text is refused; the message begins with the setting's name."""
    with pytest.raises(InvalidAddress, match=r"^http: "):
        loopback_address(text, "http")
