"""What a request says of the task that it wants: checked, as the agent gets it."""

from collections.abc import Mapping
from typing import Annotated, Any

from google.protobuf import json_format
from pydantic import Field

from scope_catalogue.catalogue import probe_named
from scope_catalogue.errors import CatalogueError, InvalidTarget
from scope_catalogue.options import parse_options
from scope_catalogue.target import check_target
from scope_catalogue.where import LONGEST
from scope_proto.scope.v1.task_pb2 import Definition
from scope_server.api.routing.models import PID, Body, Option
from scope_server.errors import InvalidQuery
from scope_views.choice import Choice

LONGEST_S = 10 * 366 * 86400.0


class Target(Body):
    """The processes that a task watches. All fields that are given must match; none: the whole machine."""

    pid: Annotated[int, Field(le=PID, description="a process, and the children that it starts")] | None = None
    comm: Annotated[str, Field(max_length=15, description="threads with this name")] | None = None
    exe: Annotated[str, Field(max_length=4095, description="processes that run this file")] | None = None
    cgroup: Annotated[str, Field(max_length=4095, description="a cgroup and those below it")] | None = None
    container: (
        Annotated[str, Field(max_length=255, description="a container: its name, or the first 12 digits of its id")]
        | None
    ) = None


class Part(Body):
    """A probe with options and a filter."""

    probe: str = Field(examples=["syscalls"], description="its name, as /api/v1/probes lists it")
    options: dict[str, Option] | None = Field(None, description="values by name, as /api/v1/probes lists them")
    where: Annotated[str, Field(min_length=1, max_length=LONGEST)] | None = Field(
        None,
        description="only rows that meet it are recorded, such as: ret < 0; no rows of streams without its columns",
    )


class Watched(Body):
    """Whom tasks watch, and how long."""

    target: Target | None = None
    duration: Annotated[float, Field(gt=0, le=LONGEST_S)] | None = Field(
        None, description="seconds from the task's first start; without it, until the task is stopped"
    )


def definition_of(part: Part, watched: Watched, *, newer: bool = False, at: str = "") -> Definition:
    """The definition of a task.

    Args:
        newer: only the agent knows the probe, and checks its options and the filter.
        at: where the body has the part: a JSON pointer.

    Raises:
        InvalidQuery: the probe, an option, the filter or the target is not valid.
    """
    definition = Definition(probe=part.probe, where=part.where or "")
    options = dict(part.options or {}) if newer else checked_options(part, at)
    try:
        json_format.ParseDict(options, definition.options)
    except json_format.ParseError as error:
        raise InvalidQuery(str(error), pointer=f"{at}/options") from None
    target = watched.target.model_dump(exclude_none=True) if watched.target else {}
    try:
        check_target(target)
    except InvalidTarget as error:
        raise InvalidQuery(str(error), pointer="/target") from None
    for name, value in target.items():
        setattr(definition.target, name, value)
    if watched.duration is not None:
        definition.duration.FromNanoseconds(int(watched.duration * 1e9))
    return definition


def checked_options(part: Part, at: str = "") -> dict[str, Any]:
    """The options that were given, with the types that the probe declares; checks the filter, too.

    Raises:
        InvalidQuery: there is no such probe, or it does not allow an option or the filter.
    """
    given: Mapping[str, Any] = part.options or {}
    try:
        probe = probe_named(part.probe)
    except CatalogueError as error:
        raise InvalidQuery(str(error), pointer=f"{at}/probe") from None
    try:
        checked = parse_options(probe.options, given)
    except CatalogueError as error:
        raise InvalidQuery(str(error), pointer=f"{at}/options") from None
    try:
        Choice(part.where or "", probe.recorded(checked)).narrowed(probe.name, probe.options, checked)
    except CatalogueError as error:
        raise InvalidQuery(str(error), pointer=f"{at}/where") from None
    values = {name: checked[name] for name in given}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
