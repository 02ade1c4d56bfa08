"""Streams as the catalogue describes them, with the columns that a test needs."""

from collections.abc import Mapping
from typing import Any

from scope_catalogue.shown import Flame, Live, Shown
from scope_catalogue.stream import Column, DescribedStream, Mode, TypedColumn


def stream(columns: Mapping[str, Column], *tables: Live, flame: Flame | None = None, **given: Any) -> DescribedStream:
    """A stream named `some` of these columns, shown in these tables; `given`: other fields, or another name."""
    typed = tuple(TypedColumn(name=name, type="", **vars(column)) for name, column in columns.items())
    fields = {"name": "some", "probe": "test", "mode": Mode.EVENTS, "meaning": "something", "columns": typed}
    return DescribedStream(**{**fields, "shown": Shown(tables, flame=flame), **given})  # type: ignore[arg-type]
