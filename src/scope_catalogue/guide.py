"""What people should know about a probe beyond its columns: printed by `scope probes NAME` and on the probe's page."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """A command that people can run, which a test runs, too.

    Attributes:
        command: a line of shell that calls `scope`.
        shows: what one learns by the command.
    """

    command: str
    shows: str


@dataclass(frozen=True)
class Guide:
    """Each text is a few sentences with names in backquotes, as in Markdown; the first is the most important.

    Attributes:
        examples: commands to begin with.
        notes: what the rows mean, and how the options change them.
        limits: what is not recorded, and what recording costs the watched programs.
    """

    examples: tuple[Example, ...] = ()
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
