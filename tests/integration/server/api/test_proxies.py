"""Behind reverse proxies: who asks is what our own proxies say, and nobody else's word counts."""

from collections.abc import Callable, Sequence
from typing import Any

import aiohttp
import pytest
from tests.integration.server.running import Server

from scope_server.accounts import throttle
from scope_server.limits import Rate

StartServer = Callable[..., Any]
NOBODY = {"email": "nobody@example.org", "password": "a wrong password"}


async def _refused(server: Server, *forwarded: str) -> tuple[int, str]:
    """Status of a refused login over TCP, and the address that the audit log has of it."""
    headers = [("X-Forwarded-For", each) for each in forwarded]
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://{server.http}/api/v1/auth/login", json=NOBODY, headers=headers) as answer,
    ):
        status = answer.status
    ((address,),) = server.query(
        "SELECT address FROM store.audit WHERE act = 'login.refuse' ORDER BY number DESC LIMIT 1"
    )
    return status, str(address)


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        ((), ["203.0.113.7"], "127.0.0.1"),  # nobody is believed
        (("10.0.0.0/8",), ["203.0.113.7"], "127.0.0.1"),  # another one is
        (("127.0.0.1",), ["203.0.113.7"], "203.0.113.7"),
        (("127.0.0.1",), ["10.0.0.9, 203.0.113.7"], "203.0.113.7"),  # what a stranger sent comes first
        (("127.0.0.1", "10.0.0.0/8"), ["1.2.3.4, 203.0.113.7, 10.0.0.9"], "203.0.113.7"),  # two proxies
        (("127.0.0.1", "10.0.0.0/8"), ["203.0.113.7", "10.0.0.9"], "203.0.113.7"),  # in two headers
        (("127.0.0.1",), ["2001:db8::7"], "2001:db8::7"),
        (("127.0.0.1",), ["203.0.113.7, nonsense"], "127.0.0.1"),
        (("127.0.0.1",), [], "127.0.0.1"),
        (("127.0.0.0/8",), ["127.0.0.5"], "127.0.0.5"),
    ],
)
async def test_whose_address_counts(
    start_server: StartServer, proxies: Sequence[str], forwarded: Sequence[str], address: str
) -> None:
    """It is the last one that no proxy of ours has."""
    async with start_server(proxies=tuple(proxies)) as server:
        assert await _refused(server, *forwarded) == (401, address)


async def test_who_guesses_passwords_uses_up_nobody_elses_tries(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tries are counted by the address behind the proxy: others can still log in."""
    monkeypatch.setattr(throttle, "_ADDRESSES", Rate(per_minute=0.01, burst=2))
    async with start_server(proxies=("127.0.0.1",)) as server:
        assert [(await _refused(server, "203.0.113.7"))[0] for _ in range(3)] == [401, 401, 429]
        user = {"email": "owner@example.org", "password": "a long password"}
        assert (await server.ask("POST", "users", json={**user, "role": "viewer"}))[0] == 201
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"http://{server.http}/api/v1/auth/login", json=user, headers={"X-Forwarded-For": "198.51.100.1"}
            ) as answer,
        ):
            assert answer.status == 200
