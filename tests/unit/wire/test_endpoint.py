"""Endpoints are read from HOST:PORT; a service without TLS takes loopback addresses only. Errors name the remedy."""

import pytest

from scope_wire.endpoint import Endpoint
from scope_wire.errors import InvalidAddress


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:0", "127.0.0.1", 0), ("[::1]:8470", "::1", 8470), ("localhost:65535", "localhost", 65535)],
)
def test_loopback_addresses_are_taken(text: str, host: str, port: int) -> None:
    """IPv4, IPv6 and localhost addresses are split into host and port, and written as they were read."""
    found = Endpoint.parse_loopback(text, "http")
    assert (found.host, found.port, str(found)) == (host, port, text)


@pytest.mark.parametrize("text", ["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "host:1", "127.0.0.2.example:1"])
def test_others_could_connect(text: str) -> None:
    """Other addresses are refused where there is no TLS, and taken where there is."""
    with pytest.raises(
        InvalidAddress, match=r"^http: '.*' is not a loopback address; use 127.0.0.1, \[::1\] or localh"
    ):
        Endpoint.parse_loopback(text, "http")
    assert str(Endpoint.parse(text, "ingest")) == text


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "127.0.0.1:65536", "127.0.0.1:\u0661", "", "[::1:2", "::1]:2", "127.0.0.1:-1"]
)
def test_what_is_no_address(text: str) -> None:
    """The message begins with the setting's name, and has an example."""
    with pytest.raises(InvalidAddress, match=r"^join: '.*' is not host:port, such as 127.0.0.1:8470"):
        Endpoint.parse(text, "join")


def test_an_address_without_a_host() -> None:
    """It would mean all addresses to one program and this machine to another; the error says how to write the first."""
    with pytest.raises(InvalidAddress, match=r"^ingest: ':8471' has no host; write 0.0.0.0:8471 "):
        Endpoint.parse(":8471", "ingest")


def test_all_addresses() -> None:
    """Who listens on all addresses cannot be called there."""
    assert Endpoint.parse("0.0.0.0:1", "ingest").is_everywhere and Endpoint.parse("[::]:1", "ingest").is_everywhere
    assert not Endpoint.parse("localhost:1", "ingest").is_everywhere
