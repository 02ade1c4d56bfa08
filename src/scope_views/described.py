"""Arrow schemas that say what their columns mean."""

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from scope_views.times import TIME

_TIME_MEANING = "ktime_ns as UTC time"


class Meant(Protocol):
    """A column."""

    @property
    def meaning(self) -> str:
        """What it means."""

    @property
    def unit(self) -> str:
        """Its unit, such as ns; empty: none."""


class Described(Protocol):
    """What rows are of: a stream, or an answer of the API."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def meaning(self) -> str:
        """What a row is."""

    @property
    def by_name(self) -> Mapping[str, Meant]:
        """Its columns."""


def described(stream: Described, schema: pa.Schema, about: Mapping[str, str]) -> pa.Schema:
    """The schema, with the `meaning` and `unit` of each of the stream's columns, and of `time`.

    Args:
        about: what else the schema's metadata has, besides the `stream` and its `meaning`.
    """
    fields = []
    for field in schema:
        column = stream.by_name.get(field.name)
        if column or field.name == TIME.name:
            meaning, unit = (column.meaning, column.unit) if column else (_TIME_MEANING, "")
            field = field.with_metadata({"meaning": meaning, "unit": unit})  # noqa: PLW2901  # a copy
        fields.append(field)
    return pa.schema(fields, metadata={"stream": stream.name, "meaning": stream.meaning, **about})
