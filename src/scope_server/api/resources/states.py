"""The current states of a stream, in groups."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import Field, create_model

from scope_catalogue.shown import Latest
from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE, STATES, TABLES
from scope_server.api.resources.machines import find_machine
from scope_server.api.resources.streams import (
    OF_MACHINE,
    Rows,
    StreamPath,
    columns_of,
    no_stream,
    row_model,
    texts,
    title,
)
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import NodeName, Pid, Recorded, Whole
from scope_server.api.routing.route import PREFIX, OfStream, Routes, always
from scope_server.api.routing.tables import Declared, Table, TableQuery
from scope_server.errors import InvalidQuery
from scope_server.store.schema.columns import IN_PROCESS, StreamTable

ROUTES = Routes()

MOST = 1000
LONGEST_H = 10 * 366 * 24


class MachineStatesQuery(TableQuery):
    """Which states."""

    node: NodeName | None = None
    hours: Whole = Field(24, ge=1, le=LONGEST_H, description="only what was seen in the last hours")
    limit: Whole = Field(100, ge=1, le=MOST)


class StatesQuery(MachineStatesQuery):
    """Which states of processes."""

    pid: Pid | None = None


class States(Recorded, Table):
    """Groups of states that have not ended, the largest first; groups of ended processes last."""

    groups: Rows

    def rows(self) -> Iterable[dict[str, Any]]:
        """The groups."""
        groups: list[dict[str, Any]] = self.groups
        return groups


def _of_stream(table: StreamTable) -> OfStream | None:
    latest = table.latest
    if latest is None:
        return None
    group = row_model(title(table, "StateGroup"), _columns(table, latest))
    answer = create_model(title(table, "States"), __base__=States, groups=(list[group], ...))  # type: ignore[valid-type]
    query = StatesQuery if table.of_processes else MachineStatesQuery
    return OfStream(f"Current states: {table.meaning}", answer, query)


def _columns(table: StreamTable, latest: Latest) -> dict[str, Declared]:
    columns: dict[str, Declared] = texts(OF_MACHINE) | {"time": (datetime, "when the newest state was read")}
    columns |= columns_of(table, (*(IN_PROCESS if table.of_processes else ()), *latest.by))
    columns |= columns_of(table, (*latest.totals, *latest.means))
    return columns | ({latest.ended: (bool, table.meanings.get(latest.ended, ""))} if latest.ended else {})


@ROUTES.get(f"{PREFIX}/states/{{stream}}", Role.VIEWER, lags=always, of_stream=_of_stream)
async def get_states(call: Call, path: StreamPath, query: StatesQuery) -> States:
    """Groups of states that have not ended, the largest first; groups of ended processes last."""
    table = _table(call, path, query)
    machine = None if query.node is None else (await find_machine(call, query.node))[0]
    processes = None
    if query.pid is not None:
        of = {"pid": query.pid, "start_ns": None, "machines": None if machine is None else [machine]}
        processes = [row["id"] for row in await call[DATABASE].fetch("find_processes", of)]
    groups = await call[STATES].largest(
        table,
        since=datetime.now(UTC) - timedelta(hours=query.hours),
        limit=query.limit,
        machine=machine,
        processes=processes,
    )
    assert table.latest  # `_table` finds no others
    return States(groups=groups).with_columns(_columns(table, table.latest))


def _table(call: Call, path: StreamPath, query: StatesQuery) -> StreamTable:
    tables = call[TABLES]
    of_states = {name for name, table in tables.items() if table.latest}
    if path.stream not in of_states:
        raise no_stream("stream of states", path, of_states)
    if query.pid is not None and not tables[path.stream].of_processes:
        raise InvalidQuery(f"the states of stream '{path.stream}' belong to no process", parameter="pid")
    return tables[path.stream]
