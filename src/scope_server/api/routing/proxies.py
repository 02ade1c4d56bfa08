"""Who asks through a reverse proxy: what it says in its headers, if it is one of ours.

Limits and the audit log are by address. Without this, all people behind a proxy would have one, and whoever tries
passwords would use up what everybody may.
"""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

_FOR, _PROTO = "X-Forwarded-For", "X-Forwarded-Proto"


class Proxies:
    """The reverse proxies that are believed.

    Args:
        networks: their addresses or networks.

    Raises:
        ValueError: one of them is neither.
    """

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks: list[IPv4Network | IPv6Network] = [ip_network(text) for text in networks]

    @web.middleware
    async def resolve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Passes the request on, with the address of who asks, and whether it came by TLS."""
        return await handler(request.clone(**self._told(request)) if self._has(request.remote or "") else request)

    def _told(self, request: web.Request) -> dict[str, Any]:
        """What the proxies say. Each appends to the list, so that what is before our proxies may be anybody's word."""
        told: dict[str, Any] = {}
        passed = [text.strip() for text in ",".join(request.headers.getall(_FOR, [])).split(",")]
        for address in reversed(passed):
            if not _is_address(address):
                break
            told["remote"] = address
            if not self._has(address):
                break
        if request.headers.get(_PROTO) == "https":
            told["scheme"] = "https"
        return told

    def _has(self, address: str) -> bool:
        return _is_address(address) and any(ip_address(address) in network for network in self._networks)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
