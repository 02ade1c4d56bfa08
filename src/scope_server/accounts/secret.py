"""Secrets that are given to somebody once, and kept only as digests."""

import hashlib
import secrets


def make(kind: str) -> str:
    """A new secret; its beginning says what it is, for people and for scanners of leaked secrets."""
    return f"{beginning(kind)}{secrets.token_urlsafe(32)}"


def beginning(kind: str) -> str:
    """How the secrets of a kind begin."""
    return f"scope_{kind}_"


def digest(secret: str) -> bytes:
    """What is kept of a secret: enough, because nobody can guess 256 bits."""
    return hashlib.sha256(secret.encode(errors="replace")).digest()
