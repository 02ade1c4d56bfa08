"""Accounts of a server over a test's database."""

from scope_server.accounts.access_token import AccessTokens
from scope_server.accounts.api_tokens import ApiTokens
from scope_server.accounts.audit import Audit
from scope_server.accounts.caller import Caller, Role
from scope_server.accounts.devices import Devices
from scope_server.accounts.logins import Logins, Pair
from scope_server.accounts.passwords import Passwords
from scope_server.accounts.refusals import Refusals
from scope_server.accounts.throttle import Throttle
from scope_server.accounts.users import Users
from scope_server.errors import NotAuthenticated
from scope_server.limits import LocalLimits
from scope_server.store.reading.database import Database

ADA, PASSWORD = "ada@example.org", "correct horse battery"
HERE, PROGRAM = "192.0.2.1", "a test"
LOCAL = Caller("root (local)", Role.ADMIN)


def _secret(purpose: str) -> bytes:
    return purpose.ljust(64).encode()


class House:
    """A server's accounts over a test's database."""

    def __init__(self, database: Database) -> None:
        self.database, passwords = database, Passwords()
        self.audit = Audit(database)
        refusals = Refusals(LocalLimits())
        self.logins = Logins(
            database,
            passwords,
            self.audit,
            tokens=AccessTokens(_secret),
            devices=Devices(_secret),
            throttle=Throttle(LocalLimits()),
            refusals=refusals,
        )
        self.tokens = ApiTokens(database, refusals)
        self.users = Users(database, passwords, open_registration=False)

    async def login(self, password: str = PASSWORD, email: str = ADA, address: str = HERE, *, device: str = "") -> Pair:
        """Logs in."""
        return await self.logins.begin(email, password, address, PROGRAM, device)

    async def refresh(self, pair: Pair) -> Pair:
        """The next tokens."""
        return await self.logins.refresh(pair.refresh_token, HERE)

    async def knows(self, pair: Pair) -> bool:
        """Whether the access token counts."""
        try:
            return (await self.logins.caller(pair.access_token, HERE)).name == ADA
        except NotAuthenticated:
            return False

    async def acts(self) -> list[str]:
        """The acts in the audit log, in their order."""
        return [row["act"] for row in await self.database.fetch("audit_after", {"number": 0, "most": 1000})]
