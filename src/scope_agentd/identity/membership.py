"""The machine's membership in a server's fleet: key and certificate, where the server is, and what it refused."""

import asyncio
import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scope_agentd.errors import NotJoined, StateUnusable
from scope_wire.endpoint import Endpoint
from scope_wire.errors import InvalidAddress, InvalidCertificate, InvalidKeyFile
from scope_wire.identity import read_certificate
from scope_wire.join_token import digest_of
from scope_wire.keys import Credentials, Key, write_private


@dataclass(frozen=True)
class Fleet:
    """What a machine knows of its fleet besides its certificate; kept as `membership.json`.

    Attributes:
        fleet: digest of the authority with which it joined, in hexadecimal digits; stays when that is replaced.
        token: digest of the token with which it joined: another one has it join again.
        servers: host:port of the session service, at all its addresses.
        enrolments: the same, of the enrolment service.
        needs_token: why the server refuses this machine, for good; empty: it does not.
    """

    fleet: str
    token: str
    servers: tuple[str, ...]
    enrolments: tuple[str, ...]
    needs_token: str = ""


class Membership:
    """Reads and writes the membership in the state directory: `agent.pem`, `membership.json` and `revoked`.

    Attributes:
        credentials: the newest; replaced as a whole, so any thread may read it.
        fleet: replaced as a whole, too.
        judged: set when the server has accepted or refused this machine.
        revoked: serial numbers of certificates of persons whose calls are refused.

    Raises:
        NotJoined: there is none, or it cannot be used.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir, self.judged = state_dir, asyncio.Event()
        if not key_file(state_dir).exists():
            raise NotJoined(
                "this machine has not joined a server: make a token there with `scope admin join-token`, then run "
                "`scope agentd --join HOST:PORT --token TOKEN` or, for the service, `scope install agentd --join ...`"
            )
        try:
            self.credentials = Credentials.read(key_file(state_dir))
            self.fleet = _read(state_dir, self.credentials)
            revoked = _revoked_file(state_dir)
            self.revoked = frozenset(revoked.read_text().split() if revoked.exists() else ())
        except InvalidKeyFile as error:
            raise NotJoined(f"{error}; or remove it, and join again") from None
        except (OSError, UnicodeDecodeError) as error:
            raise NotJoined(f"cannot read the state directory {state_dir}: {error}; join again") from None

    def current(self) -> Credentials:
        """The newest credentials."""
        return self.credentials

    @property
    def machine_id(self) -> str:
        """The machine's id in the fleet."""
        return self.credentials.holder.identity.name

    def endpoints(self, address: str | None = None) -> list[Endpoint]:
        """The server's session service at its addresses, or at the one that is given.

        Raises:
            NotJoined: none can be used.
        """
        try:
            texts = [address] if address else self.fleet.servers
            return [Endpoint.parse(text, "server").showing(self.current) for text in texts]
        except InvalidAddress as error:
            raise NotJoined(f"{error}; give another with --server, or join again") from None

    def renew(self, answer: Any, at: Endpoint) -> None:
        """Keeps a newer certificate of the same key, and what the server told with it.

        Args:
            answer: scope.v1.Certificate.
            at: where it came from.

        Raises:
            InvalidCertificate: the answer is not valid; nothing has changed.
            OSError: it cannot be written; it is used all the same.
        """
        self.credentials = credentials_of(answer, self.credentials.key, self.credentials.authorities)
        servers, enrolments = addresses_of(answer, at)
        self.fleet = replace(
            self.fleet,
            servers=servers or self.fleet.servers,
            enrolments=enrolments or self.fleet.enrolments,
            needs_token="",
        )
        self.credentials.write(key_file(self._state_dir))
        _write(self._state_dir, self.fleet)

    def refuse(self, reason: str) -> None:
        """Keeps why the server refuses this machine; nothing else changes.

        Raises:
            OSError: it cannot be written; it is known all the same, until the next start.
        """
        if reason != self.fleet.needs_token:
            self.fleet = replace(self.fleet, needs_token=reason)
            _write(self._state_dir, self.fleet)

    def revoke(self, serials: frozenset[str]) -> None:
        """Keeps which certificates of persons are revoked.

        Raises:
            OSError: it cannot be written; they are refused all the same, until the next start.
        """
        if serials != self.revoked:
            self.revoked = serials
            write_private(_revoked_file(self._state_dir), "\n".join(sorted(serials)).encode())


def keep(state_dir: Path, credentials: Credentials, fleet: Fleet) -> None:
    """Keeps a new membership.

    Raises:
        StateUnusable: it cannot be written.
    """
    try:
        _write(state_dir, fleet)
        credentials.write(key_file(state_dir))  # last: it says that both are there
    except OSError as error:
        raise StateUnusable(f"cannot write to the state directory {state_dir}: {error.strerror or error}") from None


def is_valid(state_dir: Path, authority: bytes) -> bool:
    """Whether there is a membership that this authority (SHA-256 of its certificate) accepts, as far as this machine
    knows: its certificate has not expired."""
    try:
        member = Membership(state_dir)
    except NotJoined:
        return False
    known = authority in map(digest_of, member.credentials.authorities)
    return known and not member.fleet.needs_token and member.credentials.holder.expires > datetime.now(UTC)


def credentials_of(answer: Any, key: Key, trusted: tuple[Any, ...]) -> Credentials:
    """The credentials in an answer (scope.v1.Certificate) to who has this key.

    Args:
        trusted: certificates of authorities; a new one in the answer counts, since one of these vouched for the answer.

    Raises:
        InvalidCertificate: the answer has no certificate of this key, or none of its authorities signed it.
    """
    told = tuple(read_certificate(each) for each in answer.authorities)
    return Credentials(key, read_certificate(answer.certificate), told or trusted)


def addresses_of(answer: Any, at: Endpoint) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The addresses of the session service and the enrolment service in an answer (scope.v1.Certificate) from `at`.

    Raises:
        InvalidCertificate: one is not host:port.
    """
    sessions = answer.session_addresses or [answer.session_address] * bool(answer.session_address)
    return _whole(sessions, at), _whole(answer.enrolment_addresses, at)


def _whole(addresses: Any, at: Endpoint) -> tuple[str, ...]:
    """The addresses, those without a host with that of `at`."""
    texts = [str(at.at(port=0)).removesuffix(":0") + text if text.startswith(":") else text for text in addresses]
    try:
        return tuple(str(Endpoint.parse(text, "the server's address")) for text in texts)
    except InvalidAddress as error:
        raise InvalidCertificate(str(error)) from None


def key_file(state_dir: Path) -> Path:
    """The file with the machine's key, certificate and authorities."""
    return state_dir / "agent.pem"


def _read(state_dir: Path, credentials: Credentials) -> Fleet:
    file = state_dir / "membership.json"
    if not file.exists():  # joined by version 0.1.0, which kept the address only; the server tells the rest
        address = (state_dir / "server-address").read_text().strip()
        return Fleet(digest_of(credentials.authorities[0]).hex(), "", (address,), ())
    try:
        kept = json.loads(file.read_text())
        lists = {name: tuple(map(str, kept[name])) for name in ("servers", "enrolments")}
        return Fleet(str(kept["fleet"]), str(kept["token"]), **lists, needs_token=str(kept["needs_token"]))
    except (ValueError, KeyError, TypeError) as error:
        raise NotJoined(f"{file} is damaged ({error}); join again") from None


def _write(state_dir: Path, fleet: Fleet) -> None:
    write_private(state_dir / "membership.json", json.dumps(asdict(fleet), indent=1).encode())


def _revoked_file(state_dir: Path) -> Path:
    return state_dir / "revoked"
