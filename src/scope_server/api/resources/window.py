"""Which rows of a stream a request is about: a window of time, a filter, a machine, a task."""

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
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import StreamTable

Filter = Annotated[
    str,
    Field(max_length=LONGEST, description="a filter on the columns, such as: ret < 0 and path ~ '/etc/*'"),
]
TaskId = Annotated[UUID, Field(description="only what this task recorded")]
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
_LENGTH = timedelta(hours=1)


class TimesQuery(Parameters):
    """A window of time."""

    since: Annotated[Moment, Field(description="default: an hour before `until`")] | None = None
    until: Annotated[Moment, Field(description="not in it; default: now")] | None = None


class WindowQuery(TimesQuery):
    """Rows of a window of time."""

    where: Filter | None = None
    machine: NodeName | None = None
    task: TaskId | None = None


def times_of(query: TimesQuery) -> tuple[datetime, datetime]:
    """Begin and end of the window.

    Raises:
        InvalidQuery: it ends before it begins, or is before 1970 or after 2200.
    """
    until = query.until or datetime.now(UTC)
    since = query.since or max(until - _LENGTH, _EARLIEST) if until >= _EARLIEST else until
    if not _EARLIEST <= since < until <= _LATEST:
        raise InvalidQuery("it must be before until, both from 1970 to 2200", parameter="since")
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


def condition_of(where: str | None, table: StreamTable) -> Condition | None:
    """The condition of a filter; None: all rows.

    Raises:
        InvalidQuery: it is no filter on the columns of the table.
    """
    try:
        return read_filter(where, table.types) if where is not None else None
    except InvalidFilter as error:
        raise InvalidQuery(str(error), faults=[Fault(str(error), parameter="where")]) from None
