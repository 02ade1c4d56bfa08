"""Streams as models: a row's columns, for the descriptions of routes with a stream in their path.

Rows of answers are never validated: they come in pages, as the store made them.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import pyarrow as pa
from pydantic import BaseModel, Field, WithJsonSchema, create_model

from scope_catalogue.nearest import unknown
from scope_catalogue.stream import OF_PROCESS
from scope_server.api.context import TABLES
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Parameters
from scope_server.errors import Fault, UnknownThing
from scope_server.store.schema.columns import StreamTable

# Dicts of JSON's types. Nobody looks at each of their values: this serialises 1,000 rows in 0.8 ms, not in 2.3.
Rows = Annotated[Any, WithJsonSchema({"type": "array", "items": {"type": "object"}})]
OF_MACHINE = {"machine_id": "the machine's id", "hostname": "the machine's name"}


class StreamPath(Parameters):
    """Which stream."""

    stream: str


def stream_named(call: Call, path: StreamPath) -> StreamTable:
    """The table of a stream.

    Raises:
        UnknownThing: there is no such stream.
    """
    tables = call[TABLES]
    if path.stream not in tables:
        raise no_stream("stream", path, tables)
    return tables[path.stream]


def no_stream(kind: str, path: StreamPath, known: Iterable[str]) -> UnknownThing:
    """The error if there is no stream of this kind and name."""
    detail = f"there is {unknown(kind, path.stream, sorted(known))}"
    return UnknownThing(detail, faults=[Fault(detail, parameter="stream")])


def row_model(name: str, columns: Mapping[str, tuple[Any, str]]) -> type[BaseModel]:
    """The model of rows with these columns.

    Args:
        columns: type and meaning of each.
    """
    # A column may have any name, also that of a method of models: so the fields have names of their own.
    fields: dict[str, Any] = {
        f"column_{number}": (kind, Field(alias=column, description=meaning))
        for number, (column, (kind, meaning)) in enumerate(columns.items())
    }
    return create_model(name, __base__=Answer, **fields)


def columns_of(table: StreamTable, names: Iterable[str]) -> dict[str, tuple[Any, str]]:
    """Type and meaning of columns of a stream."""
    return {name: (_type(table.schema.field(name).type), table.meanings.get(name, "")) for name in names}


def of_container(table: StreamTable) -> dict[str, tuple[Any, str]]:
    """The column with the container of a row's process; none: the rows are not about processes."""
    return {"container": (str | None, OF_PROCESS["container"].meaning)} if table.of_processes else {}


def texts(columns: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    """Columns of texts."""
    return {name: (str, meaning) for name, meaning in columns.items()}


def title(table: StreamTable, suffix: str) -> str:
    """The name of a model of a stream: `SyscallSummaryPage`."""
    return "".join(part.capitalize() for part in table.name.split("_")) + suffix


def _type(arrow: pa.DataType) -> Any:
    if pa.types.is_boolean(arrow):
        return bool | None
    if pa.types.is_integer(arrow):
        return int | None
    if pa.types.is_floating(arrow):
        return float | None
    if pa.types.is_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return list[_type(arrow.value_type)] | None  # type: ignore[misc]  # the type is made here
    return str | None
