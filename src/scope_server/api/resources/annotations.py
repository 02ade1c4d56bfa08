"""Annotations: what people and programs say about a moment or a time."""

import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from pydantic import BeforeValidator, Field, WithJsonSchema

from scope_server.accounts.caller import Role
from scope_server.api.context import ANNOTATIONS
from scope_server.api.resources.during import label_of
from scope_server.api.resources.machines import NODE_FIELD, find_machine, machines_named
from scope_server.api.resources.members import Labels
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Body, Moment, Names, NodeName, Parameters, Whole
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.api.routing.tables import Table, TableQuery, Value, flat
from scope_server.errors import InvalidQuery, UnknownThing
from scope_server.store.annotations import Annotation as Stored

ROUTES = Routes()

MOST = 10_000
_LONGEST = 500


class AnnotationsQuery(TableQuery):
    """Which annotations."""

    since: Moment | None = None
    until: Annotated[Moment, Field(description="not in it")] | None = None
    machine: NodeName | None = None
    label: (
        Annotated[
            tuple[str, str],
            BeforeValidator(label_of),
            WithJsonSchema({"type": "string"}),
            Field(description="only those with this label: NAME=VALUE"),
        ]
        | None
    ) = None
    limit: Whole = Field(1000, ge=1, le=MOST)


class Annotation(Answer):
    """What somebody said about a moment or a time."""

    id: str
    time: datetime
    until: datetime | None = Field(description="null: it is about a moment")
    text: str
    labels: Names
    machine_id: str | None = Field(description="null: it is about all machines")
    hostname: str | None
    pid: int | None = Field(description="of the program that said it")
    comm: str | None
    made_by: str | None = Field(description="the person who made it; null: a program")


class FoundAnnotations(Table):
    """Annotations, the newest first."""

    ROW = Annotation

    annotations: list[Annotation]

    def rows(self) -> Iterator[Mapping[str, Value]]:
        """The annotations."""
        return map(flat, self.annotations)


class NewAnnotation(Body):
    """What to say, about which time; without a time, about now."""

    text: Annotated[str, Field(min_length=1, max_length=_LONGEST)]
    time: Moment | None = None
    until: Moment | None = None
    labels: Labels = Field({})
    node: NodeName | None = Field(None, description="the machine that it is about; none: all")


class AnnotationPath(Parameters):
    """Which annotation."""

    id: UUID


class DeletedAnnotation(Answer):
    """The annotation is gone."""

    id: str


@ROUTES.get(f"{PREFIX}/annotations", Role.VIEWER)
async def get_annotations(call: Call, query: AnnotationsQuery) -> FoundAnnotations:
    """Annotations of people, and of programs on machines, the newest first."""
    rows = await call[ANNOTATIONS].find(
        since=query.since,
        until=query.until,
        machines=await machines_named(call, query.machine),
        labels=dict([query.label] if query.label else []),
        most=query.limit,
    )
    return FoundAnnotations(annotations=[Annotation(**row) for row in rows])


@ROUTES.post(f"{PREFIX}/annotations", Role.OPERATOR, audited="annotation.add", status=201)
async def add_annotation(call: Call, body: NewAnnotation) -> Annotation:
    """Say something about a moment or a time."""
    machine = (await find_machine(call, body.node, NODE_FIELD))[0] if body.node else None
    time = body.time or datetime.now(UTC)
    if body.until and body.until < time:
        raise InvalidQuery("until: is before the time", pointer="/until")
    person = call.person.name
    made = Stored(str(uuid.uuid4()), time, body.text, body.until, body.labels, machine=machine, made_by=person)
    await call[ANNOTATIONS].put([made])
    (row,) = await call[ANNOTATIONS].find(id_=made.id)
    return Annotation(**row)


@ROUTES.post(f"{PREFIX}/annotations/{{id}}/delete", Role.OPERATOR, audited="annotation.delete")
async def delete_annotation(call: Call, path: AnnotationPath) -> DeletedAnnotation:
    """Delete an annotation."""
    if not await call[ANNOTATIONS].drop(str(path.id)):
        raise UnknownThing(f"there is no annotation '{path.id}'", parameter="id")
    return DeletedAnnotation(id=str(path.id))
