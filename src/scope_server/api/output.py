"""Converts rows to JSON."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with times as text, and sums (PostgreSQL's numeric) as whole numbers."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return int(value) if isinstance(value, Decimal) else value
