"""Answers as tables: the same rows as NDJSON, CSV, an Arrow IPC stream or Parquet, if the query asks for it."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, get_args

import pyarrow as pa
from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from scope_server.api.routing.models import Answer, Parameters, Text
from scope_views.described import Described
from scope_views.files import FORMATS, MEDIA, Format, Lost
from scope_views.times import TIME

Value = Any  # of a column: a scalar, a time, or what becomes JSON


class TableQuery(Parameters):
    """What may be answered as a table."""

    format: Annotated[
        Literal["json", "ndjson", "csv", "arrow", "parquet"],
        Field(description="of the answer; all but json have only its rows, as a file"),
    ] = "json"


class Table(Answer, ABC):
    """An answer that has rows.

    Attributes:
        ROW: the model of each; None: they are of a stream, and without any there are no columns.
    """

    ROW: ClassVar[type[BaseModel] | None] = None

    @abstractmethod
    def rows(self) -> Iterable[Mapping[str, Value]]:
        """The rows, each with its columns by name."""

    def lost(self) -> Sequence[Lost]:
        """Why and how much is not in them."""
        return ()


@dataclass(frozen=True)
class _Column:
    meaning: str
    unit: str = ""


@dataclass(frozen=True)
class _Of:
    """What the rows of a file are of, as `scope_views.described.Described`."""

    name: str
    meaning: str
    by_name: Mapping[str, _Column]


def file_of(answer: Table, form: Format, name: str, stream: Described | None) -> Text:
    """The rows of an answer as a file.

    Args:
        name: of the file, without its ending.
        stream: whose rows they are; None: of no stream.
    """
    rows, model = list(answer.rows()), answer.ROW
    fields = model.model_fields if model else {}
    names = list(dict.fromkeys([*fields, *(each for row in rows for each in row)]))
    columns = [_column(each, [row.get(each) for row in rows], fields.get(each)) for each in names]
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    meant = {each: _Column(info.description or "") for each, info in fields.items()}
    of = stream or _Of(name, (answer.__doc__ or "").partition("\n")[0], meant)
    encoder = FORMATS[form](of, batch.schema, answer.lost())
    content = b"".join([*encoder.rows(batch), encoder.end()])
    return Text(
        content=content,
        content_type=MEDIA[form],
        headers={"Content-Disposition": f'attachment; filename="{name}.{form}"', "Cache-Control": "no-store"},
    )


def flat(values: BaseModel) -> dict[str, Value]:
    """A model's fields as a row."""
    return {name: getattr(values, name) for name in type(values).model_fields}


def _column(name: str, values: list[Value], declared: FieldInfo | None) -> pa.Array:
    """Values in the narrowest type that has all of them; what is no scalar is JSON."""
    there = [value for value in values if value is not None]
    if not there:
        return pa.nulls(len(values), _declared(declared))
    if all(isinstance(value, datetime) for value in there):
        return pa.array(values, TIME.type)
    if name == TIME.name:  # of rows: texts, to the nanosecond
        return pa.array(values, pa.string()).cast(TIME.type)
    if any(isinstance(value, Mapping | list | tuple) for value in there):
        return pa.array([None if value is None else _json(value) for value in values], pa.string())
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # of several types
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def _declared(info: FieldInfo | None) -> pa.DataType:
    """The type of a column without values."""
    kinds = list(_kinds(info.annotation)) if info else []
    for kind, arrow in ((datetime, TIME.type), (bool, pa.bool_()), (int, pa.int64()), (float, pa.float64())):
        if kind in kinds:
            return arrow
    return pa.string()


def _kinds(annotation: Any) -> Iterator[Any]:
    yield annotation
    for inner in get_args(annotation):
        yield from _kinds(inner)


def _json(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)
