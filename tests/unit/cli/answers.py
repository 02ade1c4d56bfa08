"""The API's answers about tasks and machines, with the given fields."""

from datetime import UTC, datetime, timedelta
from typing import Any

TASK_ID = "0190c0de-0000-7000-8000-000000000001"
MACHINE = "0123456789abcdef0123456789abcdef"


def in_seconds(seconds: float) -> str:
    """The time that many seconds from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def a_stream(**fields: Any) -> dict[str, Any]:
    """The books of a stream of a task."""
    return {"stream": "syscall", "emitted": 1009, "stored": 900, "left_out": 0, "under_way": 9, "lost": [], **fields}


def a_task(**fields: Any) -> dict[str, Any]:
    """A running task."""
    plain: dict[str, Any] = {
        "task_id": TASK_ID,
        "group_id": None,
        "node": MACHINE,
        "hostname": "here",
        "origin": "server",
        "probe": "syscalls",
    }
    plain |= {
        "target": {},
        "options": {},
        "where": None,
        "duration": None,
        "wanted": True,
        "state": "running",
        "reason": None,
    }
    plain |= {"next_try": None, "error": None, "attach_point": "tp_btf", "sent_bytes": 2048, "cost": None, "notes": []}
    plain |= {
        "created": in_seconds(-60),
        "started_by": None,
        "stopped_by": None,
        "started": in_seconds(-60),
        "ended": None,
        "runs": [],
        "streams": [],
    }
    return {**plain, **fields}


def a_node(**fields: Any) -> dict[str, Any]:
    """A machine whose agent is connected."""
    plain = {"machine_id": MACHINE, "hostname": "here", "kernel": "6.1", "architecture": "x86_64", "cpus": 2}
    plain |= {"memory_bytes": 1, "agent_version": "0.1", "booted": in_seconds(-1000), "first_seen": in_seconds(-1000)}
    plain |= {"last_seen": in_seconds(-180), "connected": True, "clock_ahead_ns": 0, "conflict": None, "spool": None}
    plain |= {"labels": {}, "membership": "joined"}
    return {**plain, **fields}
