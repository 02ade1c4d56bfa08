"""Log lines: time, level, logger, message, then the structured fields as name=value."""

import logging
import os

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class FieldsFormatter(logging.Formatter):
    """Puts the fields that a call gave as `extra` behind its message."""

    def format(self, record: logging.LogRecord) -> str:
        """The whole line."""
        line = super().format(record)
        fields = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        return " ".join([line, *(f"{name}={value}" for name, value in fields.items())])


def configure() -> None:
    """Logs to stderr, from WARNING on or from the level in SCOPE_LOG."""
    handler = logging.StreamHandler()
    handler.setFormatter(FieldsFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=os.environ.get("SCOPE_LOG", "WARNING").upper(), handlers=[handler])
