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


class DirectoryInUse(PostgresError):
    """Another process runs a PostgreSQL in this directory.

    Attributes:
        pid: the process that holds it.
    """

    def __init__(self, directory: str, pid: int) -> None:
        super().__init__(f"{directory} is in use by process {pid}; stop it, or choose another directory")
        self.pid = pid


class StoreUnavailable(ScopeServerError, ConnectionError):
    """The database cannot be reached now; the same request may succeed later."""


class SchemaConflict(ScopeServerError, TypeError):
    """The catalogue and the database's tables contradict each other."""


class Rejected(ScopeServerError, ValueError):
    """A batch that can never be stored.

    Attributes:
        code: one word for the books, such as `corrupt`; the message is for people.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class AgentError(ScopeServerError):
    """An agent refused a request, or could not be asked."""


class AgentUnavailable(AgentError, ConnectionError):
    """The machine's agent is not connected or does not answer."""


class AgentRefused(AgentError, ValueError):
    """The agent answered that it will not; the message is its reason."""


class InvalidQuery(ScopeServerError, ValueError):
    """A request of the API that asks for what there is not; the message names the field."""


class UnknownThing(ScopeServerError, LookupError):
    """A request of the API names a stream, task or node that there is not."""
