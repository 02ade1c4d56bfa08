"""All that a server knows of people."""

from collections.abc import Callable

from scope_server.accounts.access_token import AccessTokens
from scope_server.accounts.api_tokens import ApiTokens
from scope_server.accounts.audit import Audit
from scope_server.accounts.csrf import CsrfTokens
from scope_server.accounts.devices import Devices
from scope_server.accounts.logins import Logins
from scope_server.accounts.passwords import Passwords
from scope_server.accounts.refusals import Refusals
from scope_server.accounts.throttle import Throttle
from scope_server.accounts.users import Users
from scope_server.limits import Limits
from scope_server.store.reading.database import Database


class Accounts:
    """Accounts over a database.

    Args:
        secret: 32 bytes for a purpose, see `AccessTokens`.
        open_registration: whether anybody may register.
    """

    def __init__(
        self, database: Database, secret: Callable[[str], bytes], limits: Limits, *, open_registration: bool
    ) -> None:
        passwords, refusals = Passwords(), Refusals(limits)
        self.audit, self.csrf = Audit(database), CsrfTokens(secret)
        self.logins = Logins(
            database,
            passwords,
            self.audit,
            tokens=AccessTokens(secret),
            devices=Devices(secret),
            throttle=Throttle(limits),
            refusals=refusals,
        )
        self.users = Users(database, passwords, open_registration=open_registration)
        self.api_tokens = ApiTokens(database, refusals)
        self._secret = secret

    @property
    def installation(self) -> str:
        """Some digits that servers of a fleet have in common and other servers do not; others with a new authority."""
        return self._secret("installation")[:4].hex()
