"""The machine's membership in a server's fleet: key and certificate, and where the server is."""

from datetime import UTC, datetime
from pathlib import Path

from scope_agentd.errors import NotJoined, StateUnusable
from scope_wire.endpoint import Endpoint
from scope_wire.errors import InvalidAddress, InvalidKeyFile
from scope_wire.keys import Credentials, write_private


class Membership:
    """Reads and writes the membership in the state directory: `agent.pem`, `server-address` and `revoked`.

    Attributes:
        credentials: the newest; replaced as a whole, so any thread may read it.
        server: host:port of the server's session service.
        revoked: serial numbers of certificates of persons whose calls are refused.

    Raises:
        NotJoined: there is none, or it cannot be used.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        if not key_file(state_dir).exists():
            raise NotJoined(
                "this machine has not joined a server: make a token there with `scope admin join-token`, then run "
                "`scope agentd --join HOST:PORT --token TOKEN` or, for the service, `scope install agentd --join ...`"
            )
        try:
            self.credentials = Credentials.read(key_file(state_dir))
            self.server = _address_file(state_dir).read_text().strip()
            revoked = _revoked_file(state_dir)
            self.revoked = frozenset(revoked.read_text().split() if revoked.exists() else ())
        except InvalidKeyFile as error:
            raise NotJoined(f"{error}; or remove it, and join again") from None
        except (OSError, UnicodeDecodeError) as error:
            raise NotJoined(f"cannot read the state directory {state_dir}: {error}; join again") from None

    def current(self) -> Credentials:
        """The newest credentials."""
        return self.credentials

    def endpoint(self, address: str | None = None) -> Endpoint:
        """The server's session service, at another address if one is given.

        Raises:
            NotJoined: no address is given, and the kept one cannot be used.
        """
        try:
            return Endpoint.parse(address or self.server, "server").showing(self.current)
        except InvalidAddress as error:
            raise NotJoined(f"{error}; give another with --server, or join again") from None

    def renew(self, credentials: Credentials) -> None:
        """Keeps a newer certificate.

        Raises:
            OSError: it cannot be written; it is used all the same.
        """
        self.credentials = credentials
        credentials.write(key_file(self._state_dir))

    def revoke(self, serials: frozenset[str]) -> None:
        """Keeps which certificates of persons are revoked.

        Raises:
            OSError: it cannot be written; they are refused all the same, until the next start.
        """
        if serials != self.revoked:
            self.revoked = serials
            write_private(_revoked_file(self._state_dir), "\n".join(sorted(serials)).encode())


def keep(state_dir: Path, credentials: Credentials, server: str) -> None:
    """Keeps a new membership.

    Raises:
        StateUnusable: it cannot be written.
    """
    try:
        write_private(_address_file(state_dir), f"{server}\n".encode())
        credentials.write(key_file(state_dir))  # last: it says that both are there
    except OSError as error:
        raise StateUnusable(f"cannot write to the state directory {state_dir}: {error.strerror or error}") from None


def is_valid(state_dir: Path, authority: bytes) -> bool:
    """Whether there is a membership with a certificate of this authority (SHA-256 of its own) that has not expired."""
    from scope_wire.join_token import digest_of

    try:
        credentials = Membership(state_dir).credentials
    except NotJoined:
        return False
    return digest_of(credentials.authorities[0]) == authority and credentials.holder.expires > datetime.now(UTC)


def key_file(state_dir: Path) -> Path:
    """The file with the machine's key, certificate and authority."""
    return state_dir / "agent.pem"


def _address_file(state_dir: Path) -> Path:
    return state_dir / "server-address"


def _revoked_file(state_dir: Path) -> Path:
    return state_dir / "revoked"
