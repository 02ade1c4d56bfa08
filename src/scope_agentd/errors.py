"""Everything that scope_agentd raises descends from `AgentError`. A message says what to do."""


class AgentError(Exception):
    """Root of this package's errors."""


class InvalidSettings(AgentError, ValueError):
    """A setting has a value that it cannot have."""


class PortTaken(AgentError, OSError):
    """Another program listens where the agent was to."""


class UnknownTask(AgentError, LookupError):
    """No task has this id."""


class TaskConflict(AgentError):
    """A task of this id is defined otherwise."""


class InvalidDefinition(AgentError, ValueError):
    """A task cannot be defined so."""
