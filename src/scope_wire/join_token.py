"""Tokens with which a machine joins: a secret, and the digest by which the machine knows the server."""

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from scope_wire.errors import InvalidJoinToken

_PREFIX = "scope-join-"
_SECRET_BYTES = 16
_FORM = re.compile(rf"{_PREFIX}([A-Za-z0-9_-]{{64}})")  # 16 and 32 bytes in base64url (RFC 4648): no padding


@dataclass(frozen=True)
class JoinToken:
    """A token.

    Attributes:
        secret: 16 random bytes; the server keeps only their digest.
        authority: SHA-256 of the certificate of the server's authority, in DER.
    """

    secret: bytes
    authority: bytes

    @classmethod
    def make(cls, authority: x509.Certificate) -> "JoinToken":
        """A new token of this authority."""
        return cls(secrets.token_bytes(_SECRET_BYTES), digest_of(authority))

    @classmethod
    def read(cls, text: str) -> "JoinToken":
        """The token in a text.

        Raises:
            InvalidJoinToken: there is none.
        """
        found = _FORM.fullmatch(text.strip())
        if not found:
            raise InvalidJoinToken("the token is not one; `scope admin join-token` on the server makes one")
        content = base64.urlsafe_b64decode(found[1])
        return cls(content[:_SECRET_BYTES], content[_SECRET_BYTES:])

    def __str__(self) -> str:
        return _PREFIX + base64.urlsafe_b64encode(self.secret + self.authority).decode()

    @property
    def secret_digest(self) -> bytes:
        """SHA-256 of the secret: what the server keeps. The secret is random, so no salt is needed."""
        return hashlib.sha256(self.secret).digest()


def digest_of(authority: x509.Certificate) -> bytes:
    """SHA-256 of a certificate, in DER: its fingerprint."""
    return hashlib.sha256(authority.public_bytes(Encoding.DER)).digest()


def fingerprint_of(authority: x509.Certificate) -> str:
    """The same as people compare it: `SHA256:` and base64 without padding, as ssh writes it."""
    return "SHA256:" + base64.b64encode(digest_of(authority)).decode().rstrip("=")
