"""Base classes and types of what requests and answers have."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from scope_server.api.routing.input import quoted

PID = (1 << 31) - 1


class Parameters(BaseModel):
    """Parameters of a query or a path: texts that are converted to the fields' types."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Body(BaseModel):
    """A JSON object of a request; values must have the fields' types."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Nothing(Parameters):
    """No parameters, or an empty body."""


class Answer(BaseModel):
    """A JSON object of an answer."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class Recorded(Answer):
    """An answer made of what was recorded."""

    age_s: float = Field(
        default=0.0,
        description="how old what it is made of may be, in seconds; 0 if the database itself answered, no replica",
    )


class Text(Answer):
    """An answer that is no JSON.

    Attributes:
        MEDIA: the types that it may have.
        headers: besides the type.
    """

    MEDIA: ClassVar[tuple[str, ...]] = ("text/plain",)
    content: bytes
    content_type: str
    headers: dict[str, str] = {}


class Streamed(Text):
    """An answer that is sent piece by piece, as fast as the caller takes it.

    Attributes:
        filename: for callers that store it; empty: it is not a file.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    content: bytes = b""
    pieces: AsyncGenerator[bytes, None]
    filename: str = ""


class Live(Streamed):
    """A streamed answer that a caller may get over a WebSocket, too: see `Call.web_socket`."""


def _whole(value: Any) -> int:
    digits = str(value).removeprefix("-")
    if digits.isascii() and digits.isdecimal() and len(digits) <= 20:
        return int(value)
    raise ValueError(f"{quoted(value)} is not a whole number")


def _moment(value: Any) -> datetime:
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{quoted(str(value))} is not a time; write it like 2026-01-31T12:00:00Z") from None


DIGITS = BeforeValidator(_whole)
# A whole number in decimal digits, as a parameter.
Whole = Annotated[int, DIGITS]
# The same with limits, for a parameter that may be left out: before the validator, or OpenAPI has no limits.
Pid = Annotated[int, Field(ge=1, le=PID), DIGITS]
Number = Annotated[int, Field(ge=1, le=(1 << 63) - 1), DIGITS]
# A time as a parameter; UTC if it has no time zone.
Moment = Annotated[datetime, BeforeValidator(_moment)]
NodeName = Annotated[str, Field(description="a machine: its hostname or id")]
Names = dict[str, str]
# A value of an option. Its probe checks the type.
Option = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "boolean"},
                {"type": "number"},
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}},
            ]
        }
    ),
]
