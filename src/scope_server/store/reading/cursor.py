"""Cursors: where a page ended, as text that a client hands back. Whatever it hands back is checked."""

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
    """A place, of JSON's types, as a cursor."""
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode().rstrip("=")


def decoded(cursor: str, checked: Callable[[Any], Place]) -> Place:
    """The place of a cursor.

    Args:
        checked: makes the place of what JSON has; it may raise ValueError, TypeError or OverflowError.

    Raises:
        InvalidQuery: it is no cursor.
    """
    try:
        if len(cursor) > LONGEST:
            raise ValueError
        return checked(json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))))
    except (binascii.Error, ValueError, TypeError, OverflowError, RecursionError):
        raise InvalidQuery("cursor: this is none; take `next` of the page before as it is") from None


def is_id(value: Any) -> bool:
    """Whether it is an id of the database: a whole number of 63 bits."""
    return type(value) is int and 0 <= value < 1 << 63
