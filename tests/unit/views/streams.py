"""Streams as the catalogue describes them, with the columns that a test needs."""

from collections.abc import Collection, Mapping
from typing import Any

from scope_catalogue.shown import Flame, Shown
from scope_catalogue.stream import Column, DescribedStream, Mode, TypedColumn
from scope_catalogue.tables import AnyTable

TEXTS = ("comm", "path", "args", "filename", "function", "stack", "kernel", "kind", "name", "slowed_by")


def stream(
    columns: Mapping[str, Column] | Collection[str], *tables: AnyTable, flame: Flame | None = None, **given: Any
) -> DescribedStream:
    """A stream named `some`, shown in these tables.

    Args:
        columns: by name, or only their names; those of `TEXTS` are texts, the others whole numbers.
        given: other fields, or another name.
    """
    meant = columns if isinstance(columns, Mapping) else {name: Column("") for name in columns}
    typed = tuple(
        TypedColumn(name=name, type="string" if name in TEXTS else "int64", **vars(column))
        for name, column in meant.items()
    )
    fields = {"name": "some", "probe": "test", "mode": Mode.EVENTS, "meaning": "something", "columns": typed}
    return DescribedStream(**{**fields, "shown": Shown(tables, flame=flame), **given})
