"""Cursors: the place where a page ended, as text for clients. A cursor from a client is checked like any input."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from scope_server.errors import InvalidQuery

LONGEST = 3000  # characters
LAST_ORDINAL = (1 << 31) - 1  # of a row in its batch

Place = TypeVar("Place")


def encoded(place: Sequence[Any]) -> str:
    """The cursor of a place; the place consists of JSON values."""
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode().rstrip("=")


def decoded(cursor: str, checked: Callable[[Any], Place]) -> Place:
    """The place of a cursor.

    Args:
        checked: makes a place from the JSON value; raises ValueError, TypeError or OverflowError if it cannot.

    Raises:
        InvalidQuery: the text is not a cursor.
    """
    try:
        if len(cursor) > LONGEST:
            raise ValueError
        return checked(json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))))
    except (binascii.Error, ValueError, TypeError, OverflowError, RecursionError):
        raise InvalidQuery("not a cursor; copy `next` of the page before", parameter="cursor") from None


def is_id(value: Any) -> bool:
    """Whether a value can be an id in the database: a whole number of 63 bits."""
    return type(value) is int and 0 <= value < 1 << 63
