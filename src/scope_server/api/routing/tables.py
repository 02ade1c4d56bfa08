"""Answers as tables: the same rows as NDJSON, CSV, an Arrow IPC stream or Parquet, if the query asks for it."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import pyarrow as pa
from pydantic import BaseModel, Field, PrivateAttr

from scope_server.api.routing.models import Answer, Parameters, Text
from scope_views.described import Described
from scope_views.files import FORMATS, MEDIA, Format, Lost
from scope_views.times import TIME

Value = Any  # of a column: a scalar, a time, or what becomes JSON
Declared = tuple[Any, str]  # of a column: the type, as an annotation, and the meaning
_TEXT: Declared = (str, "")


class TableQuery(Parameters):
    """What may be answered as a table."""

    format: Annotated[
        Literal["json", "ndjson", "csv", "arrow", "parquet"],
        Field(description="of the answer; all but json have only its rows, as a file"),
    ] = "json"


class Table(Answer, ABC):
    """An answer that has rows.

    Attributes:
        ROW: the model of each; None: they are of a stream, see `with_columns`.
    """

    ROW: ClassVar[type[BaseModel] | None] = None
    _columns: Mapping[str, Declared] = PrivateAttr(default_factory=dict)

    def with_columns(self, columns: Mapping[str, Declared]) -> Self:
        """Says which columns the rows have, also if there are none."""
        self._columns = columns
        return self

    def declared(self) -> Mapping[str, Declared]:
        """The declared columns, by name."""
        if self.ROW is None:
            return self._columns
        return {name: (info.annotation, info.description or "") for name, info in self.ROW.model_fields.items()}

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
        stream: whose rows they are, unless the answer has a model of its own; None: of no stream.
    """
    rows, declared = list(answer.rows()), answer.declared()
    names = list(dict.fromkeys([*declared, *(each for row in rows for each in row)]))
    columns = [_column(each, [row.get(each) for row in rows], declared.get(each, _TEXT)[0]) for each in names]
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    meant = {each: _Column(meaning) for each, (_, meaning) in declared.items()}
    of = stream if stream and answer.ROW is None else _Of(name, (answer.__doc__ or "").partition("\n")[0], meant)
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


def _column(name: str, values: list[Value], declared: Any) -> pa.Array:
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


def _declared(annotation: Any) -> pa.DataType:
    """The type of a column without values."""
    kinds = list(_kinds(annotation))
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
