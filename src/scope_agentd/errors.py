"""Everything that scope_agentd raises descends from `AgentError`. A message says what to do."""


class AgentError(Exception):
    """Root of this package's errors."""


class InvalidSettings(AgentError, ValueError):
    """A setting has a value that it cannot have."""


class StateUnusable(AgentError, OSError):
    """The state directory cannot be made, or cannot be written to."""


class PortTaken(AgentError, OSError):
    """Another program listens where the agent was to."""


class UnknownTask(AgentError, LookupError):
    """No task has this id."""


class TaskConflict(AgentError):
    """A task of this id is defined otherwise, or is somebody else's to stop."""


class InvalidDefinition(AgentError, ValueError):
    """A task cannot be defined so."""


class SessionEnded(AgentError, ConnectionError):
    """The server ended a session, or answered what it should not."""


class SpoolInUse(AgentError):
    """Another agent uses the spool's directory."""


class SpoolUnusable(AgentError, OSError):
    """The spool's directory cannot be made, read or written to."""


class SpoolFailed(AgentError):
    """The spool's own thread ended by an error that nobody expected."""


class SpoolClosed(AgentError):
    """The spool was closed."""


class RecordTooLarge(AgentError, ValueError):
    """A record has more bytes than the spool and the wire take."""
