"""Times on the command line: RFC 3339, or a time span before now."""

import argparse
import re
from datetime import UTC, datetime, timedelta

_AGO = re.compile(r"-?([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
NEGATIVE = re.compile(r"-\.?[0-9]")  # an argument that begins like a number is a value, not an option


def moment(text: str) -> str:
    """A time for the API, as an argparse type: `-5m` (units s, m, h, d) becomes the time five minutes ago.

    Raises:
        argparse.ArgumentTypeError: the text is neither a time nor a time span.
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


def shortly(time: str) -> str:
    """A time of the API to the second, in this machine's zone."""
    return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M:%S}"
