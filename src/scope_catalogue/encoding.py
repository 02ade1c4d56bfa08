"""Converts definitions (dataclasses) to JSON and back. The dataclass is the only list of fields.

Left out of JSON: values that equal a field's default, and fields with the metadata `data=False`. Left out when JSON is
read: keys that no field has, because another version may have written them; and what cannot be read of fields with the
metadata `lenient=True`, which get their default.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum, StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from scope_catalogue.errors import InvalidDescription

T = TypeVar("T")
_MOST_SHOWN = 60  # characters


class Variant:
    """A definition that stands where one of several may stand. In JSON it is `{"NameOfItsClass": {...}}`."""


def to_json(value: Any) -> Any:  # noqa: PLR0911  # one return for each kind of value
    """The value as dicts, lists, texts, numbers, booleans and None."""
    if is_dataclass(value):
        given = {field.name: getattr(value, field.name) for field in _fields(type(value))}
        told = {
            name: to_json(each)
            for (name, each), field in zip(given.items(), _fields(type(value)), strict=True)
            if each != _default(field)
        }
        return {type(value).__name__: told} if isinstance(value, Variant) else told
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {name: to_json(each) for name, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(to_json(each) for each in value)
    if isinstance(value, tuple | list):
        return [to_json(each) for each in value]
    return value


def from_json(kind: type[T], value: Any, at: str = "") -> T:
    """The definition that `to_json` converted.

    Args:
        at: where the value is, for messages.

    Raises:
        InvalidDescription: a value has another type than its field, or is missing.
    """
    if not isinstance(value, dict):
        raise _wrong(at, "an object", value)
    hints = _hints(kind)  # type: ignore[arg-type]  # mypy: a dataclass's type is no Hashable
    given = {}
    for field in _fields(kind):
        where = f"{at}.{field.name}" if at else field.name
        if field.name in value:
            try:
                given[field.name] = _read(hints[field.name], value[field.name], where)
            except InvalidDescription:
                if not field.metadata.get("lenient"):
                    raise
        elif _default(field) is MISSING:
            raise InvalidDescription(f"{where} is missing")
    return kind(**given)


def _read(kind: Any, value: Any, at: str) -> Any:  # noqa: PLR0911  # one return for each kind of field
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return tuple(value) if isinstance(value, list) else value
    if origin is UnionType:
        if NoneType in inner:
            return None if value is None else _read(inner[0], value, at)
        return _variant(inner, value, at)
    if origin in (tuple, frozenset):
        if not isinstance(value, list):
            raise _wrong(at, "a list", value)
        return origin(_read(inner[0], each, f"{at}[{number}]") for number, each in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _wrong(at, "an object", value)
        return {name: _read(inner[1], each, f"{at}.{name[:_MOST_SHOWN]}") for name, each in value.items()}
    if is_dataclass(kind):
        return from_json(cast(type[Any], kind), value, at)
    if issubclass(kind, Enum):
        return _member(kind, value, at)
    if type(value) is not kind:
        raise _wrong(at, {str: "a text", int: "a whole number", bool: "true or false"}[kind], value)
    return value


def _variant(kinds: tuple[Any, ...], value: Any, at: str) -> Any:
    known = {kind.__name__: kind for kind in kinds}
    if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= known.keys():
        raise _wrong(at, f"one of {', '.join(known)}", value)
    ((name, told),) = value.items()
    return from_json(known[name], told, f"{at}.{name}")


def _member(kind: type[Enum], value: Any, at: str) -> Enum:
    members = {each.value if isinstance(each, StrEnum) else each.name: each for each in kind}
    if not isinstance(value, str) or value not in members:
        raise _wrong(at, f"one of {', '.join(members)}", value)
    return members[value]


def _fields(kind: type) -> list[Field[Any]]:
    return [field for field in fields(kind) if field.metadata.get("data", True)]


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _wrong(at: str, wanted: str, value: Any) -> InvalidDescription:
    return InvalidDescription(f"{at or 'the description'} is not {wanted}: {repr(value)[:_MOST_SHOWN]}")
