"""How a command ends: 0 done, 1 failed, 2 wrong usage; an error is one line on stderr that says what to do.

A command that cannot be run for us to trace it ends us as it ends a shell: 127 if it is not there, 126 otherwise.
"""


class CommandError(Exception):
    """The command failed; the message is for the user."""

    status = 1


class UsageError(CommandError):
    """The command was called wrongly."""

    status = 2


class ServerUnreachable(CommandError):
    """The server does not answer, or cannot now; the same request may succeed later."""


class Interrupted(CommandError):
    """Ctrl-C or SIGTERM, before there was anything to end in order."""

    status = 130

    def __init__(self) -> None:
        super().__init__("ended before it had started")


class NotRun(CommandError):
    """The command that was to be traced cannot be run."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


class NotLoggedIn(CommandError):
    """The server does not know who asks."""
