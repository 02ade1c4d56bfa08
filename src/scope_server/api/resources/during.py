"""Windows of time that annotations name: that of one annotation, or that in which a label had a value."""

from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import BeforeValidator, Field, WithJsonSchema

from scope_server.api.context import ANNOTATIONS
from scope_server.api.resources.machines import machines_named
from scope_server.api.resources.window import AgainstQuery
from scope_server.api.routing.call import Call
from scope_server.api.routing.input import quoted
from scope_server.errors import InvalidQuery, UnknownThing

_Query = TypeVar("_Query", bound="DuringQuery")


def label_of(text: str) -> tuple[str, str]:
    """Name and value of a label.

    Raises:
        ValueError: the text is no label.
    """
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ValueError(f"{quoted(text)} is no label; write it as NAME=VALUE, such as epoch=3")
    return name, value


def _annotation(text: str) -> UUID | tuple[str, str]:
    try:
        return UUID(text)
    except ValueError:
        return label_of(text)


_Annotation = Annotated[
    UUID | tuple[str, str], BeforeValidator(_annotation), WithJsonSchema({"type": "string", "maxLength": 500})
]


class DuringQuery(AgainstQuery):
    """Rows of a window of time, and those that they are compared with; annotations may name either window."""

    during: (
        Annotated[
            _Annotation,
            Field(
                description="in place of `since` and `until`: the time that an annotation names. An id: its own time; "
                "a moment lasts until the next annotation of its machine that has its labels' names, or now. A label, "
                "such as epoch=3: the latest time in which it had this value, until it gets another one, or now"
            ),
        ]
        | None
    ) = None
    against_during: Annotated[_Annotation, Field(description="of the others, as `during`")] | None = None


async def with_times(call: Call, query: _Query) -> _Query:
    """The request with times in place of the annotations that it names.

    Raises:
        InvalidQuery: a window is named by an annotation and by times.
        UnknownThing: there is no such annotation.
    """
    times = dict[str, Any]()
    for name in ("during", "against_during"):
        if (named := getattr(query, name)) is None:
            continue
        since, until = name.replace("during", "since"), name.replace("during", "until")
        if getattr(query, since) or getattr(query, until):
            raise InvalidQuery(f"it says the time; leave out {since} and {until}", parameter=name)
        window = await call[ANNOTATIONS].window(named, await machines_named(call, query.machine))
        if window is None:
            shown = "=".join(named) if isinstance(named, tuple) else str(named)
            detail = f"there is no annotation {quoted(shown)}; /api/v1/annotations lists them"
            raise UnknownThing(detail, parameter=name)
        times |= {name: None, since: window[0], until: window[1]}
    return query.model_copy(update=times)
