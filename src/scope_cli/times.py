"""Times as people write them: RFC 3339, or so long ago."""

import argparse
import re
from datetime import UTC, datetime, timedelta

_AGO = re.compile(r"-?([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
NEGATIVE = re.compile(r"-\.?[0-9]")  # what begins like a number is none of our options


def moment(text: str) -> str:
    """A time as the API takes it: of `-5m` (s, m, h, d) the time five minutes ago, of a time itself; for argparse.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    try:
        if ago := _AGO.fullmatch(text):
            return (datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: float(ago[1])})).isoformat()
        datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a time; write -5m (s, m, h or d ago), or 2026-01-31T12:00:00Z"
        ) from None
    return text
