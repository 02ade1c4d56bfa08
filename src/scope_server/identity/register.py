"""Who is refused, known in memory so that no call waits for it; and the certificates of persons."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509

from scope_server.errors import NotAdmitted, StoreUnavailable
from scope_server.identity.authority import Authority
from scope_server.identity.members import Members, row_of
from scope_server.identity.root import LIFETIME
from scope_server.session.session import Session
from scope_server.session.sessions import Sessions
from scope_server.signals import Signals, Topic
from scope_server.store.reading.database import Database
from scope_wire.identity import Holder, Identity
from scope_wire.join_token import digest_of
from scope_wire.refused.refusals import Reason, Refusals

log = logging.getLogger(__name__)

_READ_EVERY_S = 5.0
# Between renewals because of addresses: servers of a fleet that advertise different ones must not have their machines
# renew again and again.
_ADDRESSES_EVERY = timedelta(hours=1)


class Register:
    """Knows which certificates are refused.

    Attributes:
        authority: signs the certificates.
        members: the machines.
        refusals: counts refused peers.
    """

    def __init__(
        self, database: Database, authority: Authority, members: Members, refusals: Refusals, signals: Signals
    ) -> None:
        self._database, self.authority, self.members = database, authority, members
        self.refusals, self._signals = refusals, signals
        self._woken = asyncio.Event()
        signals.on(Topic.ENDED, lambda _: self._woken.set())
        self._ended: Mapping[bytes, Reason] | None = None  # by keys of machines; None: not read yet
        self._persons: frozenset[str] = frozenset()  # serial numbers

    async def sign(self, request: bytes, person: Identity) -> x509.Certificate:
        """Signs a person's key.

        Raises:
            InvalidMessage: the request is not valid.
            StoreUnavailable: the database cannot be reached.
        """
        certificate = self.authority.sign(request, person)
        await self._database.run("keep_certificate", row_of(certificate, None))
        return certificate

    async def all(self) -> list[dict[str, Any]]:
        """All certificates that have not expired, newest first; with the columns of `store.certificates`."""
        return list(await self._database.fetch("certificates"))

    async def revoke_person(self, which: str) -> int:
        """Revokes a person's certificate with this serial number, or all with this name; returns how many."""
        revoked = await self._database.run("revoke_person", {"which": which})
        await self._read()
        self._signals.tell(Topic.ENDED, [which])
        return revoked

    @property
    def unknown(self) -> str:
        """Why all agents are refused so far; empty once it is known who may connect."""
        return "it is not known yet who may connect" if self._ended is None else ""

    async def end(self, machine_id: str, how: Reason) -> int:
        """Removes or revokes a machine; returns how many of its keys are refused from now on, and were not before."""
        ended = await self.members.end(machine_id, how)
        await self._read()
        self._signals.tell(Topic.ENDED, [machine_id])
        return ended

    def require_member(self, holder: Holder) -> None:
        """Checks a certificate of a machine. What another server has ended is known at once, or seconds later.

        Raises:
            NotAdmitted: it was removed or revoked, or has expired.
            StoreUnavailable: it is not known yet who was.
        """
        self.require_not_ended(holder)
        if holder.expires < datetime.now(UTC):
            raise NotAdmitted(Reason.EXPIRED, f"the certificate {holder.serial} has expired; the agent renews it")

    def require_not_ended(self, holder: Holder) -> None:
        """The same, of a certificate that may have expired.

        Raises:
            NotAdmitted: it was removed or revoked.
            StoreUnavailable: it is not known yet who was.
        """
        if self._ended is None:
            raise StoreUnavailable(f"{self.unknown}: the database was away so far")
        ending = self._ended.get(holder.key)
        if ending is Reason.REMOVED:
            raise NotAdmitted(ending, "this machine was removed; join again with a new token")
        if ending:
            raise NotAdmitted(
                ending,
                f"this machine was revoked; `scope admin remove {holder.identity.name}` on the server lets it join "
                "again, with a new token",
            )

    def is_fresh(self, holder: Holder) -> bool:
        """Whether a certificate needs no renewal yet: half of its time is left, and the newest root has signed it."""
        return holder.expires - datetime.now(UTC) > LIFETIME / 2 and self.authority.is_newest(holder)

    async def watch(self, sessions: Sessions) -> None:
        """Reads again and again who was removed or revoked. Ends the sessions of those and of expired certificates, and
        has certificates renewed after half of their time: by our clock, since that of a machine may be wrong. Machines
        learn with a new certificate what has changed, so those that do not know the roots or addresses renew, too."""
        trusted = self.authority.trusted
        while True:
            try:
                await self._read()
                trusted_before, trusted = trusted, await self._roots()
                roots = frozenset(map(digest_of, trusted))
                for session in sessions.all():
                    self._look_at(session)
                    # One that was away when a root was given up trusts it still.
                    if trusted != trusted_before or not session.roots <= roots:
                        session.ask_to_renew()
            except StoreUnavailable as error:
                log.warning("cannot read who may connect", extra={"reason": str(error)})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_READ_EVERY_S):
                    await self._woken.wait()
            self._woken.clear()

    def _look_at(self, session: Session) -> None:
        try:
            self.require_member(session.holder)
        except NotAdmitted as refusal:
            session.end(refusal)
        if not self.is_fresh(session.holder) or (session.misses_addresses and _is_old(session.holder)):
            session.ask_to_renew()
        session.tell_revoked(self._persons)

    async def _roots(self) -> tuple[x509.Certificate, ...]:
        """The roots, also if another server has changed them."""
        try:
            await asyncio.to_thread(self.authority.reread)
        except (OSError, ValueError) as error:
            log.error("cannot read the authority", extra={"reason": str(error)})
        return self.authority.trusted

    async def _read(self) -> None:
        self._ended = await self.members.ended()
        self._persons = frozenset(row["serial"] for row in await self._database.fetch("revoked_persons"))


def _is_old(holder: Holder) -> bool:
    """Whether a certificate may be renewed because of the server's addresses."""
    return holder.expires - datetime.now(UTC) < LIFETIME - _ADDRESSES_EVERY
