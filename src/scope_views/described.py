"""Arrow schemas that say what their columns mean."""

from collections.abc import Mapping

import pyarrow as pa

from scope_catalogue.stream import DescribedStream
from scope_views.times import TIME

_TIME_MEANING = "ktime_ns as UTC time"


def described(stream: DescribedStream, schema: pa.Schema, about: Mapping[str, str]) -> pa.Schema:
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
