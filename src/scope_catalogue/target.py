"""Targets: what is checked of one before the machine that it is about is asked."""

from collections.abc import Mapping
from typing import Any

from scope_catalogue.errors import InvalidTarget


def check_target(given: Mapping[str, Any]) -> None:
    """Checks the fields that a user gave. A field must not be 0 or empty: that would watch the whole machine.

    Raises:
        InvalidTarget: a field is 0, negative or empty.
    """
    for name, value in given.items():
        if not value or (name == "pid" and value < 0):
            wrong = f"{value} is no process" if name == "pid" else "it is empty"
            raise InvalidTarget(f"target.{name}: {wrong}; leave it out to watch the whole machine")
