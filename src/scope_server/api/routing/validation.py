"""Converts what a request gives to a model, with a fault for each wrong part."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from scope_catalogue.nearest import meant, unknown
from scope_server.api.routing.input import escaped, quoted
from scope_server.errors import Fault, InvalidQuery

_QUOTED = re.compile(r"'([^']*)'")
_MOST_FAULTS = 20

M = TypeVar("M", bound=BaseModel)


class Part(Enum):
    """A part of a request, as messages name what is in it."""

    QUERY = "parameter"
    PATH = "parameter of the path"
    BODY = "field"


def validated(model: type[M], given: Mapping[str, Any], part: Part) -> M:
    """A model with these values.

    Raises:
        InvalidQuery: values are missing, unknown or wrong.
    """
    try:
        return model.model_validate(given)
    except ValidationError as error:
        found = [_fault(model, each, part) for each in error.errors(include_url=False)[:_MOST_FAULTS]]
        raise InvalidQuery("; ".join(said for said, _ in found), faults=[fault for _, fault in found]) from None


def _fault(model: type[BaseModel], error: ErrorDetails, part: Part) -> tuple[str, Fault]:
    """What is said of a fault in a sentence, and the fault."""
    place = tuple(key for key in error["loc"] if key != "[key]")
    name, detail = ".".join(map(str, place)), _detail(model, error, place, part)
    said = f"{name}: {detail}" if name and error["type"] != "extra_forbidden" else detail
    if part is Part.BODY:
        return said, Fault(detail, pointer="".join(f"/{escaped(str(key))}" for key in place))
    return said, Fault(detail, parameter=name)


def _detail(model: type[BaseModel], error: ErrorDetails, place: Sequence[int | str], part: Part) -> str:
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "extra_forbidden":
        above = f" of {'.'.join(map(str, place[:-1]))}" if place[1:] else ""
        return unknown(f"{part.value}{above}", str(place[-1]), _names(model, place[:-1]))
    if kind == "missing":
        return "it is missing"
    if kind == "value_error":
        return str(context["error"])
    if kind in ("literal_error", "enum"):
        choices = _QUOTED.findall(context["expected"])
        return f"{quoted(given)} is not one of {', '.join(choices)}{meant(str(given), choices)}"
    rule = error["msg"].replace("Input should be", "must be").replace("String should", "must")
    return f"{rule}, not {quoted(given)}"


def _names(model: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    """The names of the fields that an object at this place of a model may have."""
    for key in place:
        if isinstance(key, str):
            model = next(_models_of(model.model_fields[key].annotation))
    return list(model.model_fields)


def _models_of(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a type such as `list[Part] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_of(part)
