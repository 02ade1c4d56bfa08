"""The register of join tokens and certificates, in `store.join_tokens` and `store.certificates`."""

import asyncio
import hashlib
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from scope_server.errors import NotAdmitted, StoreUnavailable
from scope_server.identity.authority import LIFETIME, Authority
from scope_server.session.session import Session
from scope_server.session.sessions import Sessions
from scope_server.store.reading.database import Database
from scope_wire.identity import Holder, Identity, Kind, holder_of
from scope_wire.join_token import JoinToken

log = logging.getLogger(__name__)

_READ_EVERY_S = 5.0


class Register:
    """Signs certificates and revokes them.

    Attributes:
        authority: signs the certificates.
    """

    def __init__(self, database: Database, authority: Authority) -> None:
        self._database, self.authority = database, authority
        self._revoked: frozenset[str] | None = None  # serial numbers; None: not read yet
        self._revoked_persons: frozenset[str] = frozenset()

    async def make_token(self, valid: timedelta) -> JoinToken:
        """A new token, for one machine.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        token = JoinToken.make(self.authority.certificate)
        await self._database.run("make_join_token", {"secret_digest": token.secret_digest, "valid": valid})
        return token

    async def join(self, token: JoinToken, request: bytes, machine: Identity, hostname: str) -> x509.Certificate:
        """Signs a machine's first key. The same key may come again with the same token: then the answer was lost.

        Raises:
            InvalidMessage: the request is not valid.
            NotAdmitted: the token is not valid, or a machine with this id has a valid certificate.
            StoreUnavailable: the database cannot be reached.
        """
        certificate = self.authority.sign(request, machine)
        key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        row = _row(certificate, hostname) | {
            "secret_digest": token.secret_digest,
            "key_digest": hashlib.sha256(key).digest(),
        }
        (found,) = await self._database.fetch("join", row)
        if found["taken_by"] is not None:
            raise NotAdmitted(
                f"a machine with the id {machine.name} has joined already, as '{found['taken_by']}'. If it is this "
                f"one, installed again: `scope admin revoke {machine.name}` on the server, then join again. If one is "
                "a copy of the other, give one an /etc/machine-id of its own (remove the file, run "
                "systemd-machine-id-setup)"
            )
        if not found["joined"]:
            raise NotAdmitted("the token was used or has expired; `scope admin join-token` makes another")
        log.info("a machine joined", extra={"machine": machine.name, "hostname": hostname})
        return certificate

    async def sign(self, request: bytes, identity: Identity, hostname: str | None = None) -> x509.Certificate:
        """Signs a key of somebody who is known.

        Raises:
            InvalidMessage: the request is not valid.
            StoreUnavailable: the database cannot be reached.
        """
        certificate = self.authority.sign(request, identity)
        await self._database.run("keep_certificate", _row(certificate, hostname))
        return certificate

    async def all(self) -> list[dict[str, Any]]:
        """All certificates that have not expired, newest first; with the columns of `store.certificates`."""
        return list(await self._database.fetch("certificates"))

    async def revoke(self, which: str) -> int:
        """Revokes the certificate with this serial number, or all with this name; returns how many."""
        revoked = await self._database.run("revoke", {"which": which})
        await self._read()
        return revoked

    @property
    def unknown(self) -> str:
        """Why all agents are refused so far; empty once it is known which certificates are revoked."""
        return "it is not known yet which certificates are revoked" if self._revoked is None else ""

    def refusal(self, holder: Holder) -> str:
        """Why this certificate is refused; empty if it is not. What another server revoked is known seconds later.

        Raises:
            StoreUnavailable: it is not known yet which are revoked.
        """
        if self._revoked is None:
            raise StoreUnavailable(f"{self.unknown}: the database was away so far")
        if holder.serial in self._revoked:
            return f"the certificate {holder.serial} was revoked; join again with a new token"
        if holder.expires < datetime.now(UTC):
            return f"the certificate {holder.serial} has expired; join again with a new token"
        return ""

    async def watch(self, sessions: Sessions) -> None:
        """Reads again and again what was revoked. Ends the sessions of revoked and expired certificates, and has
        certificates renewed after half of their time: by our clock, since that of a machine may be wrong."""
        while True:
            try:
                await self._read()
                for session in sessions.all():
                    self._look_at(session)
            except StoreUnavailable as error:
                log.warning("cannot read which certificates are revoked", extra={"reason": str(error)})
            await asyncio.sleep(_READ_EVERY_S)

    def _look_at(self, session: Session) -> None:
        if refusal := self.refusal(session.holder):
            session.end(NotAdmitted(refusal))
        elif session.holder.expires - datetime.now(UTC) < LIFETIME / 2:
            session.ask_to_renew()
        session.tell_revoked(self._revoked_persons)

    async def _read(self) -> None:
        rows = await self._database.fetch("revoked_certificates")
        self._revoked = frozenset(row["serial"] for row in rows)
        self._revoked_persons = frozenset(row["serial"] for row in rows if row["kind"] == Kind.OPERATOR)


def _row(certificate: x509.Certificate, hostname: str | None) -> dict[str, Any]:
    holder = holder_of(certificate)
    return {
        "serial": holder.serial,
        "kind": holder.identity.kind.value,
        "name": holder.identity.name,
        "role": holder.identity.role and holder.identity.role.value,
        "hostname": hostname,
        "expires": holder.expires,
    }
