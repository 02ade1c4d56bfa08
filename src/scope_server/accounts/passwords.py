"""Passwords, kept as argon2id hashes, with the parameters that OWASP's Password Storage Cheat Sheet recommends."""

import asyncio
import os
import unicodedata
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from scope_server.errors import InvalidQuery

SHORTEST, LONGEST = 12, 256  # characters
_HASHER = PasswordHasher(time_cost=2, memory_cost=19 << 10, parallelism=1)


class Passwords:
    """Makes and compares hashes, a bounded number at a time: each takes 19 MiB for a moment."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(os.cpu_count() or 1)
        self._nobodys = _nobodys_hash()

    async def hash(self, password: str) -> str:
        """The hash of a new password.

        Raises:
            InvalidQuery: it is too short or too long.
        """
        if not SHORTEST <= len(password) <= LONGEST:
            raise InvalidQuery(f"password: must have from {SHORTEST} to {LONGEST} characters")
        async with self._free:
            return await asyncio.to_thread(_HASHER.hash, _normal(password))

    async def matches(self, kept: str | None, password: str) -> bool:
        """Whether a password has this hash. Takes as long without a hash, so that time tells nothing."""
        if len(password) > LONGEST:
            password, kept = "", None
        async with self._free:
            matches = await asyncio.to_thread(self._compare, kept or self._nobodys, _normal(password))
        return matches and kept is not None

    def is_outdated(self, kept: str) -> bool:
        """Whether a hash was made with other parameters than today's."""
        return _HASHER.check_needs_rehash(kept)

    def _compare(self, kept: str, password: str) -> bool:
        try:
            return _HASHER.verify(kept, password)
        except (VerificationError, InvalidHashError):
            return False


@cache
def _nobodys_hash() -> str:
    return _HASHER.hash("the password of nobody")


def _normal(password: str) -> str:
    """The same characters are the same password, however a keyboard composes them (RFC 8265)."""
    return unicodedata.normalize("NFC", password)
