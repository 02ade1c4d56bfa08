"""Which rows of a stream a request is about: a window of time, a filter, a machine, a task."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from pydantic import Field

from scope_catalogue.condition import Condition
from scope_catalogue.errors import InvalidFilter
from scope_catalogue.where import LONGEST, read_filter
from scope_server.api.context import DATABASE
from scope_server.api.resources.machines import machines_named
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Moment, NodeName, Parameters
from scope_server.errors import Fault, InvalidQuery, UnknownThing
from scope_server.store.answers.side import Side
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import StreamTable

Filter = Annotated[
    str,
    Field(
        max_length=LONGEST,
        description="a filter on the columns, such as: ret < 0 and path ~ '/etc/*'",
        examples=["ktime_ns > 0"],
    ),
]
TaskId = Annotated[UUID, Field(description="only what this task recorded")]
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
_LENGTH = timedelta(hours=1)


class TimesQuery(Parameters):
    """A window of time."""

    since: (
        Annotated[Moment, Field(description="default: an hour before `until`", examples=["2026-01-31T12:00:00Z"])]
        | None
    ) = None
    until: Annotated[Moment, Field(description="not in it; default: now", examples=["2026-01-31T13:00:00Z"])] | None = (
        None
    )


class WindowQuery(TimesQuery):
    """Rows of a window of time."""

    where: Filter | None = None
    machine: NodeName | None = None
    task: TaskId | None = None


class AgainstQuery(WindowQuery):
    """Rows of a window of time, and those that they are compared with."""

    against_since: Annotated[Moment, Field(description="of the others; default: `since`")] | None = None
    against_until: Annotated[Moment, Field(description="of the others; default: `until`")] | None = None
    against_where: (
        Annotated[str, Field(max_length=LONGEST, description="of the others; empty: all; default: `where`")] | None
    ) = None

    @property
    def has_others(self) -> bool:
        """Whether others are named."""
        return any(each is not None for each in (self.against_since, self.against_until, self.against_where))


def times_of(query: TimesQuery) -> tuple[datetime, datetime]:
    """Begin and end of the window.

    Raises:
        InvalidQuery: it ends before it begins, or is before 1970 or after 2200.
    """
    until = query.until or datetime.now(UTC)
    since = query.since or max(until - _LENGTH, _EARLIEST) if until >= _EARLIEST else until
    return _checked(since, until, "since")


def _checked(since: datetime, until: datetime, parameter: str) -> tuple[datetime, datetime]:
    if not _EARLIEST <= since < until <= _LATEST:
        raise InvalidQuery("it must be before until, both from 1970 to 2200", parameter=parameter)
    return since, until


async def selection_of(call: Call, table: StreamTable, query: WindowQuery) -> Selection:
    """The rows of a stream that a request is about.

    Raises:
        InvalidQuery: the window or the filter is not possible.
        UnknownThing: there is no such machine or task.
    """
    since, until = times_of(query)
    machines = await machines_named(call, query.machine)
    task, machines = await of_task(call, query.task, machines)
    return Selection(table, condition_of(query.where, table), since, until, machines, task)


def others(inside: Selection, query: AgainstQuery) -> Side:
    """The rows that those of a request are compared with; without any that are named, the others of the same window.

    No row is among both.

    Raises:
        InvalidQuery: the window or the filter is not possible.
    """
    assert inside.since and inside.until  # as `selection_of` makes it
    since = query.against_since or inside.since
    since, until = _checked(since, query.against_until or inside.until, "against_since")
    where = inside.where if query.has_others else None
    if query.against_where is not None:
        where = condition_of(query.against_where or None, inside.table, "against_where")
    return Side(inside.table, where, since, until, inside.machines, inside.task, inside)


async def of_task(call: Call, task: UUID | None, machines: list[int] | None) -> tuple[int | None, list[int] | None]:
    """The key of a task, and its machine in place of `machines`; no machine if it is not one of them.

    Raises:
        UnknownThing: there is no such task.
    """
    if task is None:
        return None, machines
    found = await call[DATABASE].fetch("find_task", {"task_id": task})
    if not found:
        raise UnknownThing(f"no task has the id '{task}'; /api/v1/tasks lists them", parameter="task")
    machine = found[0]["machine"]
    return found[0]["id"], [machine] if machines is None or machine in machines else []


def conditions_among(where: str | None, tables: Iterable[StreamTable]) -> dict[str, Condition | None]:
    """The condition of a filter for each stream that has its columns, by the stream's name.

    Raises:
        InvalidQuery: none has them.
    """
    found: dict[str, Condition | None] = {}
    refused: InvalidQuery | None = None
    for table in tables:
        try:
            found[table.name] = condition_of(where, table)
        except InvalidQuery as error:
            refused = refused or error
    if refused and not found:
        raise refused
    return found


def condition_of(where: str | None, table: StreamTable, parameter: str = "where") -> Condition | None:
    """The condition of a filter; None: all rows.

    Args:
        parameter: that has the filter.

    Raises:
        InvalidQuery: it is no filter on the columns of the table.
    """
    try:
        return read_filter(where, table.types) if where is not None else None
    except InvalidFilter as error:
        raise InvalidQuery(str(error), faults=[Fault(str(error), parameter=parameter)]) from None
