"""Log lines: time, level, logger, message, then the structured fields as name=value."""

import logging
import os
from pathlib import Path
from typing import Any

from scope_cli.errors import UsageError
from scope_views.printable import printable

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class FieldsFormatter(logging.Formatter):
    """Puts the fields that a call gave as `extra` behind its message."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, with what may be texts of other programs made printable."""
        fields = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        line = super().formatMessage(record)
        return printable(" ".join([line, *(f"{name}={value}" for name, value in fields.items())]))

    def formatException(self, error: Any) -> str:
        """A traceback, indented: no line of it passes for another message."""
        return "\n".join(f"  {printable(line)}" for line in super().formatException(error).split("\n"))


def configure() -> None:
    """Logs to stderr, from WARNING on or from the level in SCOPE_LOG.

    Raises:
        UsageError: there is no such level.
    """
    _to(logging.StreamHandler(), instead=False)


def to_file(path: Path) -> None:
    """Logs to the end of a file instead, which only its owner can read.

    Raises:
        OSError: it cannot be opened.
    """
    path.touch(0o600)
    path.chmod(0o600)  # an earlier version made it readable for all
    _to(logging.FileHandler(path, encoding="utf-8"), instead=True)


def _to(handler: logging.Handler, instead: bool) -> None:
    handler.setFormatter(FieldsFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    level = os.environ.get("SCOPE_LOG", "WARNING").upper()
    if level not in logging.getLevelNamesMapping():
        raise UsageError(f"SCOPE_LOG: {level} is no level; write DEBUG, INFO, WARNING or ERROR")
    logging.basicConfig(level=level, handlers=[handler], force=instead)
