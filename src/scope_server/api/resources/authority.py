"""The fleet's authority, for a client that meets the server; and its replacement.

Its certificate is no secret. Whoever takes it from here must compare its fingerprint with one that an admin tells.
"""

import asyncio

from pydantic import Field

from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE, REGISTER, SESSIONS
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.errors import NotOurs
from scope_wire.identity import holder_of, read_certificate
from scope_wire.keys import pem_of

ROUTES = Routes()


class AuthorityCertificate(Answer):
    """The certificate of the fleet's authority."""

    authority: str = Field(description="in PEM")


class RotatingMachine(Answer):
    """A machine while the authority is replaced."""

    machine_id: str
    hostname: str
    connected: bool
    has_next: bool = Field(description="the newest root has signed its certificate")


class Rotation(Answer):
    """How far the authority's replacement is."""

    rotates: bool
    machines: list[RotatingMachine]


@ROUTES.get(f"{PREFIX}/authority", None)
async def get_authority(call: Call) -> AuthorityCertificate:
    """The certificate of the fleet's authority."""
    return AuthorityCertificate(authority=pem_of(call[REGISTER].authority.certificate).decode())


@ROUTES.get(f"{PREFIX}/authority/rotation", Role.ADMIN)
async def get_rotation(call: Call) -> Rotation:
    """Whether the authority is being replaced, and which machines have the next root."""
    return await _progress(call)


@ROUTES.post(f"{PREFIX}/authority/rotation/begin", Role.ADMIN, audited="authority.begin")
async def begin_rotation(call: Call) -> Rotation:
    """Make the authority's next root. Connected agents get it within seconds, others when they connect."""
    await asyncio.to_thread(call[REGISTER].authority.begin_rotation)
    return await _progress(call)


@ROUTES.post(f"{PREFIX}/authority/rotation/finish", Role.ADMIN, audited="authority.finish")
async def finish_rotation(call: Call) -> Rotation:
    """End the trust in the authority's first root, unless a connected agent lacks the next one."""
    progress = await _progress(call)
    lacking = [one.hostname for one in progress.machines if one.connected and not one.has_next]
    if lacking and progress.rotates:
        shown = ", ".join(lacking[:10]) + (" ..." if len(lacking) > 10 else "")
        raise NotOurs(
            f"{len(lacking)} connected agents lack the next root: {shown}; wait, or see why in their logs, or stop them"
        )
    await asyncio.to_thread(call[REGISTER].authority.finish_rotation)
    return await _progress(call)


async def _progress(call: Call) -> Rotation:
    authority = call[REGISTER].authority
    machines = {}
    for row in await call[DATABASE].fetch("member_certificates"):
        has_next = bool(row["certificate"]) and authority.is_newest(holder_of(read_certificate(row["certificate"])))
        machines[row["machine_id"]] = RotatingMachine(
            machine_id=row["machine_id"], hostname=row["hostname"], connected=False, has_next=has_next
        )
    for session in call[SESSIONS].all():  # what an agent shows counts, not what was signed for it
        machine_id, has_next = session.machine.machine_id, authority.is_newest(session.holder)
        machines[machine_id] = RotatingMachine(
            machine_id=machine_id, hostname=session.hostname, connected=True, has_next=has_next
        )
    return Rotation(rotates=authority.rotates, machines=list(machines.values()))
