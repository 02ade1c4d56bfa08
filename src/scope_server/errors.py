"""Everything that scope_server raises descends from `ScopeServerError`. A message says what to do."""


class ScopeServerError(Exception):
    """Root of this package's errors."""


class InvalidSettings(ScopeServerError, ValueError):
    """A setting that cannot be used; the message names it."""


class AddressTaken(ScopeServerError, OSError):
    """Another program listens on the address."""

    def __init__(self, purpose: str, address: str, reason: str) -> None:
        super().__init__(
            f"cannot listen on {address} for {purpose}: {reason}; stop what uses it or choose another port"
        )
        self.address = address


class PostgresError(ScopeServerError):
    """The private PostgreSQL cannot be made, started or stopped."""


class PostgresEnded(PostgresError):
    """The private PostgreSQL ended, or a start was given up, for no reason of its own; another start may succeed."""


class DirectoryInUse(PostgresError):
    """Another process runs a PostgreSQL in this directory.

    Attributes:
        pid: the process that holds it.
    """

    def __init__(self, directory: str, pid: int) -> None:
        super().__init__(f"{directory} is in use by process {pid}; stop it, or choose another directory")
        self.pid = pid


class StoreUnavailable(ScopeServerError, ConnectionError):
    """The database cannot be used now; the same request may succeed later."""


class SchemaConflict(ScopeServerError, TypeError):
    """The catalogue and the database's tables contradict each other."""


class Rejected(ScopeServerError, ValueError):
    """A record that can never be stored.

    Attributes:
        code: one word for the books, such as `corrupt`; the message is for people.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Deferred(ScopeServerError):
    """A record that this server, older than the agent, cannot store yet; the message says what it does not know."""


class SessionError(ScopeServerError):
    """An agent's stream cannot begin, or go on."""


class InvalidMessage(SessionError, ValueError):
    """An agent's message breaks the contract; the error's message names the field."""


class MachineTaken(SessionError):
    """Another live agent has the same machine id."""


class TooManySessions(SessionError):
    """The server attends as many agents as it may."""


class NoSession(SessionError, ConnectionError):
    """There is no session to upload in, or it is over; the agent has to attend first."""


class AgentUnavailable(ScopeServerError, ConnectionError):
    """The machine's agent is not connected or does not answer."""


class AgentRefused(ScopeServerError, ValueError):
    """The agent refused a task; the message is its reason."""


class InvalidQuery(ScopeServerError, ValueError):
    """A request of the API that asks for what there is not; the message names the field."""


class UnknownThing(ScopeServerError, LookupError):
    """A request of the API names a stream, task or node that there is not."""


class NotOurs(ScopeServerError):
    """A request of the API that only somebody else may grant; the message says who."""
