"""The errors of scope_agentd. All are subclasses of `AgentError`. A message says what to do."""


class AgentError(Exception):
    """Root of this package's errors."""


class InvalidSettings(AgentError, ValueError):
    """A setting has a value that is not allowed."""


class StateUnusable(AgentError, OSError):
    """The state directory cannot be made, or cannot be written to."""


class NotJoined(AgentError):
    """This machine has no certificate of a server, or could not get one; the message says why, and what to do."""


class PortTaken(AgentError, OSError):
    """Another program listens on the agent's port."""


class UnknownTask(AgentError, LookupError):
    """No task has this id."""


class TaskConflict(AgentError):
    """A task with this id has another definition, or only the server may stop the task."""


class InvalidDefinition(AgentError, ValueError):
    """The definition of a task is not valid."""


class TooMuchMemory(AgentError):
    """With another task, the tasks would have more memory than they may."""


class AnnotationRefused(AgentError, ValueError):
    """An annotation was not taken; the message says why."""


class SessionEnded(AgentError, ConnectionError):
    """The server ended the session or sent an invalid answer."""


class SpoolInUse(AgentError):
    """Another agent uses the spool's directory."""


class SpoolUnusable(AgentError, OSError):
    """The spool's directory cannot be made, read or written to."""


class SpoolFailed(AgentError):
    """The spool's thread ended with an unexpected error."""


class SpoolClosed(AgentError):
    """The spool was closed."""


class RecordTooLarge(AgentError, ValueError):
    """A record is larger than the spool and the wire allow."""


class BusFailed(AgentError):
    """The local bus's thread ended with an unexpected error."""
