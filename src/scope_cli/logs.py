"""Log lines: time, level, logger, message, then the structured fields as name=value."""

import logging
import os
from pathlib import Path

from scope_cli.errors import UsageError

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class FieldsFormatter(logging.Formatter):
    """Puts the fields that a call gave as `extra` behind its message."""

    def format(self, record: logging.LogRecord) -> str:
        """The whole line."""
        line = super().format(record)
        fields = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        return " ".join([line, *(f"{name}={value}" for name, value in fields.items())])


def configure() -> None:
    """Logs to stderr, from WARNING on or from the level in SCOPE_LOG.

    Raises:
        UsageError: there is no such level.
    """
    _to(logging.StreamHandler(), instead=False)


def to_file(path: Path) -> None:
    """Logs to the end of a file instead.

    Raises:
        OSError: it cannot be opened.
    """
    _to(logging.FileHandler(path, encoding="utf-8"), instead=True)


def _to(handler: logging.Handler, instead: bool) -> None:
    handler.setFormatter(FieldsFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    level = os.environ.get("SCOPE_LOG", "WARNING").upper()
    if level not in logging.getLevelNamesMapping():
        raise UsageError(f"SCOPE_LOG: {level} is no level; write DEBUG, INFO, WARNING or ERROR")
    logging.basicConfig(level=level, handlers=[handler], force=instead)
