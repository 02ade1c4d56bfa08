"""Bounds how fast passwords can be tried, without locking out the account's owner.

An attacker who tries many passwords of one account exhausts what strangers may try of it. A device on which its owner
has logged in before has a bucket of its own, and so has an address.
"""

from scope_server.limits import Limits, Rate

_ADDRESSES = Rate(30, 30)
_STRANGERS = Rate(10, 20)
_OWNERS = Rate(10, 10)


class Throttle:
    """For logins."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    async def address(self, address: str) -> None:
        """Before anything is looked up.

        Raises:
            TooManyRequests: this address tries too often.
        """
        await self._limits.take(_ADDRESSES, "address", address)

    async def account(self, email: str, owner: str) -> None:
        """Before a password is compared.

        Args:
            owner: the device or address with which the account's owner has logged in before; empty: a stranger tries.

        Raises:
            TooManyRequests: this account is tried too often so.
        """
        if owner:
            await self._limits.take(_OWNERS, "owner", email, owner)
        else:
            await self._limits.take(_STRANGERS, "stranger", email)

    async def succeeded(self, email: str, address: str, owner: str) -> None:
        """The password was right: its owner has used none of what this address and this device may try."""
        await self._limits.give_back(_ADDRESSES, "address", address)
        await self._limits.give_back(_OWNERS, "owner", email, owner)
