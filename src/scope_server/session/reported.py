"""From an agent's word on a task to rows of `store.tasks`, `store.runs` and `store.accounts`, checked."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from google.protobuf import json_format

from scope_proto.scope.v1 import control_pb2, task_pb2
from scope_server.errors import InvalidMessage
from scope_server.session.hello import moment
from scope_wire.limits import MOST_COUNT, NAME_LENGTH

DEFINITION_BYTES = 32 << 10  # of a definition as JSON
_TEXT = 4000  # characters kept of an error
_MOST_STREAMS = 64
_MOST_NOTES = 16
_ENDED = ("stopped", "failed")
_RUN_STATES = ("starting", "running", "stopping", *_ENDED)


@dataclass(frozen=True)
class Reported:
    """What an agent says of a task.

    Attributes:
        task: columns of `store.tasks`; `over` if this ended the task for good.
        run: columns of `store.runs`, or None if it has not begun.
        emitted: by stream of the run.
    """

    task: Mapping[str, Any]
    run: Mapping[str, Any] | None
    emitted: Mapping[str, int]


def reported(message: control_pb2.Task, clock_ahead_ns: int) -> Reported:
    """A task as its agent reports it; what is for people is cleaned, what identifies is checked.

    Args:
        clock_ahead_ns: the agent's clock less ours. Times that we compare with ours are turned into ours.

    Raises:
        InvalidMessage: it cannot be entered; the message names the field.
    """
    task_id = uuid_text(message.task_id, "task_id")
    origin = _word(task_pb2.Origin, message.origin, "ORIGIN_")
    if origin not in ("server", "agent"):
        raise InvalidMessage(f"task {task_id}: origin: it has none")
    told = message.run
    state = _word(task_pb2.TaskState, told.state, "TASK_STATE_")
    end = _word(task_pb2.TaskEnd, told.end, "TASK_END_")
    task = {
        "task_id": task_id,
        "origin": origin,
        "probe": _probe(message.definition.probe, task_id),
        "definition": definition_json(message.definition),
        "over": end == "lease" or (origin == "agent" and (end == "request" or (end == "failure" and not told.run_id))),
        "deadline": _ours(message, "deadline", clock_ahead_ns),
        "reason": None if state == "running" else clean(told.error) or None,
        "next_try": _ours(message, "next_try", clock_ahead_ns),
    }
    if not told.run_id or not told.HasField("started") or state not in _RUN_STATES:
        return Reported(task, None, {})
    return Reported(task, _run(told, task_id, state, end), _emitted(told.accounts))


def _run(told: control_pb2.Run, task_id: str, state: str, end: str) -> dict[str, Any]:
    over = state in _ENDED
    return {
        "run_id": uuid_text(told.run_id, "run_id"),
        "task_id": task_id,
        "state": state,
        "end": end if over and end != "unspecified" else None,
        "error": clean(told.error) or None,
        "attach_point": clean(told.attach_point) or None,
        "started": moment(told.started),
        "ended": ((moment(told.ended) if told.HasField("ended") else None) or datetime.now(UTC)) if over else None,
        "notes": [clean(note) for note in told.notes[:_MOST_NOTES]],
        "sent_bytes": min(told.sent_bytes, MOST_COUNT),
        "cost": json.dumps(
            {name: _finite(getattr(told.cost, name)) for name in ("cpu_share", "ns_per_run", "runs_per_second")}
        ),
    }


def _emitted(accounts: Mapping[str, Any]) -> dict[str, int]:
    named = [stream for stream in accounts if stream and len(stream) <= NAME_LENGTH and "\0" not in stream]
    return {stream: min(accounts[stream].emitted, MOST_COUNT) for stream in sorted(named)[:_MOST_STREAMS]}


def definition_json(definition: task_pb2.Definition) -> str:
    """A definition as `store.tasks` keeps it: scope.v1.Definition as JSON.

    Raises:
        InvalidMessage: it is too large, or has a text or number that JSON or PostgreSQL does not take.
    """
    try:
        plain = json_format.MessageToDict(definition, preserving_proto_field_name=True)
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
    except (ValueError, OverflowError, RecursionError, json_format.Error) as error:
        raise InvalidMessage(f"definition: {error}") from None
    if len(text.encode()) > DEFINITION_BYTES:
        raise InvalidMessage(f"definition: it has more than {DEFINITION_BYTES >> 10} KiB")
    if "\\u0000" in text.replace("\\\\", ""):
        raise InvalidMessage("definition: a text has a NUL")
    return text


def uuid_text(text: str, name: str) -> str:
    """A UUID as UUIDs are written.

    Raises:
        InvalidMessage: it is none.
    """
    try:
        if len(text) > 36:
            raise ValueError
        return str(UUID(text))
    except ValueError:
        raise InvalidMessage(f"{name}: {text[:40]!r} is not a UUID") from None


def clean(text: str) -> str:
    """A text for people, as PostgreSQL takes it."""
    return text[:_TEXT].replace("\0", "")


def _probe(name: str, task_id: str) -> str:
    if not name or len(name) > NAME_LENGTH or "\0" in name:
        raise InvalidMessage(f"task {task_id}: definition.probe: a name of at most {NAME_LENGTH} characters is wanted")
    return name


def _word(kind: Any, value: int, prefix: str) -> str:
    try:
        return str(kind.Name(value)).removeprefix(prefix).lower()
    except ValueError:
        return "unspecified"  # a newer agent's


def _ours(message: control_pb2.Task, name: str, clock_ahead_ns: int) -> datetime | None:
    theirs = moment(getattr(message, name)) if message.HasField(name) else None  # type: ignore[arg-type]
    try:
        return theirs and theirs - timedelta(microseconds=clock_ahead_ns // 1000)
    except OverflowError:
        return None


def _finite(number: float) -> float:
    return number if math.isfinite(number) else 0.0
