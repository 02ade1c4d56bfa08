"""The errors of scope_server. All are subclasses of `ScopeServerError`. A message says what to do."""

from collections.abc import Sequence
from dataclasses import dataclass

from scope_wire.refused.refusals import Reason


class ScopeServerError(Exception):
    """Root of this package's errors."""


class InvalidSettings(ScopeServerError, ValueError):
    """A setting has a value that is not allowed; the message names the setting."""


class AddressTaken(ScopeServerError, OSError):
    """Another program listens on the address."""

    def __init__(self, purpose: str, address: str, reason: str) -> None:
        super().__init__(
            f"cannot listen on {address} for {purpose}: {reason}; stop what uses it or choose another port"
        )
        self.address = address


class PostgresError(ScopeServerError):
    """The private PostgreSQL cannot be created, started or stopped."""


class PostgresEnded(PostgresError):
    """PostgreSQL ended or its start was given up, for a reason outside it; another start may succeed."""


class DirectoryInUse(PostgresError):
    """Another process runs a PostgreSQL in this directory.

    Attributes:
        pid: the process that uses the directory.
    """

    def __init__(self, directory: str, pid: int) -> None:
        super().__init__(f"{directory} is in use by process {pid}; stop it, or choose another directory")
        self.pid = pid


class StoreUnavailable(ScopeServerError, ConnectionError):
    """The database cannot be used now; the same request may succeed later."""


class TargetUnavailable(ScopeServerError, ConnectionError):
    """A program that exports are pushed to does not take them now; the same may succeed later.

    Attributes:
        again_s: it wants to be left alone for so long.
    """

    def __init__(self, reason: str, again_s: float = 0.0) -> None:
        super().__init__(reason)
        self.again_s = again_s


class SchemaConflict(ScopeServerError, TypeError):
    """The catalogue and the database's tables contradict each other."""


class Rejected(ScopeServerError, ValueError):
    """The record can never be stored.

    Attributes:
        code: the reason under which its events are counted as lost, such as `corrupt`; the message is for people.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class WentBack(ScopeServerError):
    """The database was restored from an older copy while the connection lasted: cached keys may be of other rows."""


class GroupFailed(ScopeServerError):
    """Records cannot be stored together; their parts may be stored."""


class Deferred(ScopeServerError):
    """The record needs a newer server: this server is older than the agent. The message says what is unknown."""


class SessionError(ScopeServerError):
    """An agent's stream cannot start or continue."""


class InvalidMessage(SessionError, ValueError):
    """An agent's message is invalid; the error's message names the field."""


class MachineTaken(SessionError):
    """Another live agent has the same machine id."""


class NotAdmitted(SessionError, PermissionError):
    """The caller's certificate or token does not allow this; the message says why, and what to do.

    Attributes:
        reason: under which it is counted.
    """

    def __init__(self, reason: Reason, said: str) -> None:
        super().__init__(said)
        self.reason = reason


class TooManySessions(SessionError):
    """The server has reached its limit of connected agents."""


class ComeAgain(SessionError):
    """Too many sessions begin at the same time.

    Attributes:
        in_s: when the agent is to come again.
    """

    def __init__(self, in_s: float) -> None:
        super().__init__(f"too many agents connect at the same time; come again in {1000 * in_s:.0f} ms")
        self.in_s = in_s


class NoSession(SessionError, ConnectionError):
    """The agent has no session or its session is over; it must call Attend before Upload."""


class AgentUnavailable(ScopeServerError, ConnectionError):
    """The machine's agent is not connected or does not answer."""


class AgentRefused(ScopeServerError, ValueError):
    """The agent refused a task; the message is its reason."""


@dataclass(frozen=True)
class Fault:
    """A wrong part of a request.

    Attributes:
        parameter: its name, if it is a parameter.
        pointer: where it is in the body, if it is a field: a JSON pointer, such as `/target/pid`.
    """

    detail: str
    parameter: str = ""
    pointer: str = ""


class WrongRequest(ScopeServerError):
    """Parts of a request of the API are wrong.

    Args:
        detail: what is wrong. The message has the parameter's name before it; for a field, `detail` names it itself.

    Attributes:
        faults: the wrong parts; empty if it is the request as a whole.
    """

    def __init__(self, detail: str, *, parameter: str = "", pointer: str = "", faults: Sequence[Fault] = ()) -> None:
        super().__init__(f"{parameter}: {detail}" if parameter else detail)
        own = [Fault(detail, parameter, pointer)] if parameter or pointer else []
        self.faults = (*own, *faults)


class InvalidQuery(WrongRequest, ValueError):
    """A request of the API has an invalid parameter or field."""


class QueryTooSlow(ScopeServerError, TimeoutError):
    """The database did not finish a query in time. A narrower query, or the same at a less busy time, may."""

    def __init__(self) -> None:
        super().__init__("the query takes too long; narrow it with since, until or where")


class UnknownThing(WrongRequest, LookupError):
    """A request of the API names a stream, task or node that does not exist."""


class NotOurs(ScopeServerError):
    """A request of the API that this server may not fulfil; the message says who may."""


class NotAuthenticated(ScopeServerError, PermissionError):
    """The request does not show whose it is."""


class Forbidden(ScopeServerError, PermissionError):
    """Whose request it is may not do this."""


class TooManyRequests(ScopeServerError):
    """It was asked too often.

    Attributes:
        wait_s: after which it may be asked again.
    """

    def __init__(self, wait_s: float, what: str = "attempts") -> None:
        super().__init__(f"too many {what}; try again in {max(1, round(wait_s))} s")
        self.wait_s = wait_s


class RedisAway(ScopeServerError, ConnectionError):
    """Redis does not answer; the message says why."""


class NotHealthy(ScopeServerError):
    """The server cannot work now."""
