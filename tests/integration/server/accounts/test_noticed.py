"""What is done without a request is in the audit log: once, whoever looks."""

import asyncio
from typing import Any

import pytest
from tests.integration.server.accounts.house import House
from tests.integration.server.records import Run, lined, rows

from scope_proto.scope.v1 import task_pb2
from scope_proto.scope.v1.record_pb2 import RunEnd
from scope_server.accounts import noticed
from scope_server.accounts.noticed import Noticed
from scope_server.store.reading.database import Share


async def _entries(house: House) -> list[dict[str, Any]]:
    return list(reversed(await house.audit.before(None, 1000)))


async def test_a_changed_retention_is_noted(house: House) -> None:
    """Once, by whichever server begins first with it; from what it was, to what it is."""
    week, month = {"keep_days": 7, "keep_bytes": None}, {"keep_days": 30, "keep_bytes": 1 << 40}
    share = Share(house.database, 2)
    for policy in (week, month):
        for _ in range(2):
            await asyncio.gather(*(Noticed(share, house.audit, policy).note_policy() for _ in range(2)))
    found = [(entry["act"], entry["detail"]) for entry in await _entries(house)]
    assert found == [
        ("retention.change", {"from": None, "to": week}),
        ("retention.change", {"from": week, "to": month}),
    ]
    assert (await house.audit.verify()).fault == ""


async def test_what_people_do_on_a_machine_is_noted(
    house: House, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who started and stopped a task there, also if a batch came before the start; not what the server itself asked."""
    monkeypatch.setattr(noticed, "_AT_ONCE", 2)
    by_hand, late, asked = Run(), Run(), Run()
    end = RunEnd(end=task_pb2.TASK_END_REQUEST, stopped_by="bob")
    async with lined(database) as line:
        await line.send(by_hand.start(task_pb2.ORIGIN_AGENT, started_by="ada"), late.batch(1, rows(10)), asked.start())
        await line.send(late.start(task_pb2.ORIGIN_AGENT), by_hand.record(end=end), asked.end({"syscall": 0}))
        machine = line.machine.machine_id
    its = Noticed(Share(house.database, 2), house.audit, {})
    assert [await its.note_acts() for _ in range(3)] == [2, 1, 0]
    found = await _entries(house)
    assert sorted((entry["actor"], entry["act"], entry["object"]) for entry in found) == sorted(
        [
            ("ada", "task.start", str(by_hand.task_id)),
            ("", "task.start", str(late.task_id)),
            ("bob", "task.stop", str(by_hand.task_id)),
        ]
    )
    assert {(entry["address"], entry["detail"]["node"]) for entry in found} == {(machine, "stand-in")}
    assert (await house.audit.verify()).fault == ""
