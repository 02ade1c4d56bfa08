"""The machines of the fleet, in `store.members`: each is known by its key.

A machine that joins twice with one key is one machine, whatever was lost between. Another key is another machine, even
if it claims the same machine id, which copies of a machine have in common: it gets an id of its own.
"""

import hashlib
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from psycopg.types.json import Jsonb

from scope_server.accounts.audit import Act, Audit
from scope_server.errors import NotAdmitted, StoreUnavailable
from scope_server.identity.authority import Authority, read_request
from scope_server.store.reading.database import Connection, Database
from scope_server.store.reading.queries import queries
from scope_wire.identity import Holder, Identity, Kind, holder_of, key_digest
from scope_wire.join_token import JoinToken
from scope_wire.refused.refusals import Reason

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Joining:
    """A machine that asks to join.

    Attributes:
        request: its signing request, PKCS #10, DER.
        claimed: the machine id that it would like to have.
        address: from where it asks.
    """

    token: JoinToken
    request: bytes
    claimed: Identity
    hostname: str
    address: str


class Members:
    """Lets machines in, knows them again, and ends their membership. What a machine gets is in the audit log.

    Args:
        grace: how long after the end of its certificate a machine may renew it.
    """

    def __init__(self, database: Database, authority: Authority, grace: timedelta) -> None:
        self._database, self._authority, self.grace = database, authority, grace
        self._audit = Audit(database)

    async def make_token(self, valid: timedelta, uses: int, labels: dict[str, str]) -> JoinToken:
        """A new token.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        token = JoinToken.make(self._authority.certificate)
        row = {"secret_digest": token.secret_digest, "valid": valid, "uses": uses, "labels": Jsonb(labels)}
        await self._database.run("make_join_token", row)
        await self._database.run("forget_tokens", {})
        return token

    async def join(self, joining: Joining) -> x509.Certificate:
        """Signs a machine's key. The same key with the same token gets the same certificate: its answer was lost.

        Raises:
            InvalidMessage: the request is not valid.
            NotAdmitted: the token is not valid, or the machine was revoked.
            StoreUnavailable: the database cannot be reached.
        """
        key = key_digest(read_request(joining.request))
        try:
            async with self._database.connection() as connection, connection.transaction():
                certificate = await self._join(connection, joining, key)
        except psycopg.errors.QueryCanceled as error:
            raise StoreUnavailable(f"the database is too slow, or locked: {error}") from error
        machine = holder_of(certificate).identity.name
        log.info("a machine joined", extra={"machine": machine, "hostname": joining.hostname})
        return certificate

    async def _join(self, connection: Connection, joining: Joining, key: bytes) -> x509.Certificate:
        where = {"key_digest": key, "grace": self.grace, "secret_digest": joining.token.secret_digest}
        await connection.execute(queries()["lock_members"])
        known = await _row(connection, "member", where)
        if known and known["active"] and known["secret_digest"] == joining.token.secret_digest:
            return x509.load_der_x509_certificate(known["certificate"])
        claimed = known["machine_id"] if known and known["active"] else joining.claimed.name
        id_ = await _row(connection, "id_taken", where | {"machine_id": claimed}) or {}
        if id_["revoked"]:
            raise NotAdmitted(
                Reason.REVOKED,
                f"this machine was revoked; `scope admin remove {claimed}` on the server lets it join again",
            )
        token = await _row(connection, "use_token", where)
        if not token:
            raise NotAdmitted(Reason.TOKEN, "the token was used or has expired; `scope admin join-token` makes another")
        if id_["taken"]:
            log.warning("two machines have one machine id; the new one gets its own", extra={"machine": claimed})
            claimed = hashlib.sha256(key).hexdigest()[:32]
        certificate = self._authority.sign(joining.request, Identity(Kind.MACHINE, claimed))
        row = row_of(certificate, joining.hostname) | {"machine_id": claimed, "token": token["id"]}
        for statement in ("keep_member", "keep_certificate", "put_labels"):
            await connection.execute(queries()[statement], row | {"labels": Jsonb(token["labels"])})
        detail = {"hostname": joining.hostname, "serial": row["serial"], "labels": token["labels"]}
        await self._audit.append(connection, Act(claimed, joining.address, "node.join", claimed, detail))
        return certificate

    async def renew(self, request: bytes, holder: Holder, hostname: str | None, address: str) -> x509.Certificate:
        """Signs a key of a machine that has shown its certificate.

        Args:
            hostname: its name now; None: unknown.
            address: from where it asks.

        Raises:
            InvalidMessage: the request is not valid.
            NotAdmitted: the machine was removed or revoked.
            StoreUnavailable: the database cannot be reached.
        """
        certificate, machine = self._authority.sign(request, holder.identity), holder.identity.name
        row = row_of(certificate, hostname) | {"machine_id": machine, "shown_key": holder.key}
        if not await self._database.run("renew_member", row):
            raise NotAdmitted(Reason.REMOVED, "this machine was removed; join again with a new token")
        await self._database.run("keep_certificate", row)
        await self._audit.note(Act(machine, address, "node.renew", machine, {"serial": row["serial"]}))
        return certificate

    async def require_joined(self, holder: Holder) -> None:
        """Checks a machine whose certificate proves nothing, but who has shown that it has the key.

        Raises:
            NotAdmitted: no machine has joined with this key, or its last certificate ended before the grace period.
            StoreUnavailable: the database cannot be reached.
        """
        row = {"key_digest": holder.key, "machine_id": holder.identity.name, "grace": self.grace}
        if not await self._database.fetch("joined_with", row):
            raise NotAdmitted(
                Reason.AUTHORITY,
                "the certificate is of a root that was replaced, and the server does not know its key; join again with "
                "a new token",
            )

    async def know(self, holder: Holder, hostname: str) -> None:
        """Notes a machine that has shown its certificate, unless it is known: then the database is an older copy.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        machine = holder.identity.name
        row = {"key_digest": holder.key, "machine_id": machine, "hostname": hostname, "expires": holder.expires}
        if await self._database.run("know_again", row):
            log.warning(
                "a machine is known only by its certificate; `scope admin confirm` accepts it",
                extra={"machine": machine},
            )

    async def ended(self) -> dict[bytes, Reason]:
        """The keys of machines that were removed or revoked.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        rows = await self._database.fetch("ended_members", {"grace": self.grace})
        return {row["key_digest"]: Reason(row["ending"]) for row in rows}

    async def end(self, machine_id: str, how: Reason) -> int:
        """Ends the membership of a machine; returns how many of its keys are refused from now on, and were not before.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        row = {"machine_id": machine_id, "ending": how.value}
        ended = await self._database.run("end_member", row)
        await self._database.run("revoke_certificates", row)
        return ended

    async def confirm(self, machine_id: str) -> int:
        """Accepts a machine that was known by its certificate only."""
        return await self._database.run("confirm_member", {"machine_id": machine_id})

    async def find(self, node: str) -> list[str]:
        """The ids of the machines with this id or host name, connected before or not."""
        return [row["machine_id"] for row in await self._database.fetch("find_members", {"node": node})]

    async def label(self, machine_id: str, put: dict[str, str], drop: list[str]) -> dict[str, str]:
        """Changes the labels of a machine; returns all.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        row = {"machine_id": machine_id, "labels": Jsonb(put), "names": drop}
        for statement in ("drop_labels", "put_labels"):
            await self._database.run(statement, row)
        (found,) = await self._database.fetch("labels", row)
        return dict(found["labels"])


async def _row(connection: Connection, query: str, where: dict[str, Any]) -> dict[str, Any] | None:
    return await (await connection.execute(queries()[query], where)).fetchone()


def row_of(certificate: x509.Certificate, hostname: str | None) -> dict[str, Any]:
    """The columns that describe a certificate."""
    holder = holder_of(certificate)
    return {
        "serial": holder.serial,
        "kind": holder.identity.kind.value,
        "name": holder.identity.name,
        "role": holder.identity.role and holder.identity.role.value,
        "hostname": hostname,
        "expires": holder.expires,
        "key_digest": holder.key,
        "certificate": certificate.public_bytes(Encoding.DER),
    }
