"""The options of a probe as a JSON Schema, made from what an agent tells of them."""

from collections.abc import Iterable
from typing import Any, Literal

from google.protobuf import json_format
from pydantic import Field

from scope_proto.scope.v1 import control_pb2
from scope_server.api.routing.models import Answer, Option


def _is_unsaid(value: Any) -> bool:
    return value in (None, [])


class TextSchema(Answer):
    """The JSON Schema of a text in a list."""

    type: Literal["string"] = "string"
    pattern: str


class OptionSchema(Answer):
    """The JSON Schema of an option's value. Keywords that say nothing are absent."""

    type: Literal["integer", "boolean", "string", "array"] | None = Field(
        None, exclude_if=_is_unsaid, description="absent: this server does not know the type"
    )
    description: str
    default: Option | None = Field(None, exclude_if=_is_unsaid)
    enum: list[str] | None = Field(None, exclude_if=_is_unsaid)
    minimum: float | None = Field(None, exclude_if=_is_unsaid)
    maximum: float | None = Field(None, exclude_if=_is_unsaid)
    items: TextSchema | None = Field(None, exclude_if=_is_unsaid)
    min_items: int | None = Field(None, serialization_alias="minItems", exclude_if=_is_unsaid)


class OptionsSchema(Answer):
    """The JSON Schema of the options that a task of the probe takes; those that are left out have their defaults."""

    type: Literal["object"] = "object"
    properties: dict[str, OptionSchema]
    required: list[str]
    additional_properties: Literal[False] = Field(default=False, serialization_alias="additionalProperties")


_LIST = {"type": "array", "items": TextSchema(pattern=r"\S"), "min_items": 1}
_TYPES: dict[str, dict[str, Any]] = {
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "choice": {"type": "string"},
    "names": _LIST,
    "texts": _LIST,
}


def options_schema(options: Iterable[control_pb2.Option]) -> OptionsSchema:
    """The schema of these options."""
    told = list(options)
    return OptionsSchema(
        properties={option.name: _schema(option) for option in told},
        required=[option.name for option in told if option.required],
    )


def _schema(option: control_pb2.Option) -> OptionSchema:
    return OptionSchema(
        description=option.meaning,
        default=json_format.MessageToDict(option.default),
        enum=list(option.choices),
        minimum=option.minimum if option.HasField("minimum") else None,
        maximum=option.maximum if option.HasField("maximum") else None,
        **_TYPES.get(option.type, {}),
    )
