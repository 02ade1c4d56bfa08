"""Checks an agent's report of a task, and converts it to rows of `store.tasks`, `store.runs`, `store.accounts`."""

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
from scope_wire.limits import MOST_COUNT, NAME_LENGTH, PERSON_LENGTH

DEFINITION_BYTES = 32 << 10  # maximum size of a definition as JSON
_TEXT = 4000  # maximum characters kept of an error
_MOST_STREAMS = 64
_MOST_NOTES = 16
_ENDED = ("stopped", "failed")
_RUN_STATES = ("starting", "running", "stopping", *_ENDED)


@dataclass(frozen=True)
class Reported:
    """An agent's report of a task.

    Attributes:
        task: columns of `store.tasks`; `over` if the task has ended for good.
        run: columns of `store.runs`; None before the first run.
        emitted: emitted events by stream of the run.
        stopped: the run was ended because the task was no longer wanted.
    """

    task: Mapping[str, Any]
    run: Mapping[str, Any] | None
    emitted: Mapping[str, int]
    stopped: bool = False


def reported(message: control_pb2.Task, clock_ahead_ns: int) -> Reported:
    """The report in a message. Texts for people are cleaned; ids and names are checked.

    Args:
        clock_ahead_ns: the agent's clock minus ours. Times that are compared with our clock are converted to it.

    Raises:
        InvalidMessage: the report is not valid; the message names the field.
    """
    task_id = uuid_text(message.task_id, "task_id")
    origin = _word(task_pb2.Origin, message.origin, "ORIGIN_")
    if origin not in ("server", "agent"):
        raise InvalidMessage(f"task {task_id}: origin: missing")
    told = message.run
    state = _word(task_pb2.TaskState, told.state, "TASK_STATE_")
    end = _word(task_pb2.TaskEnd, told.end, "TASK_END_")
    task = {
        "task_id": task_id,
        "origin": origin,
        "probe": _probe(message.definition.probe, task_id),
        "definition": definition_json(message.definition),
        "over": end == "lease" or (origin == "agent" and (end == "request" or (end == "failure" and not told.run_id))),
        "deadline": ours(message, "deadline", clock_ahead_ns),
        "reason": None if state == "running" else clean(told.error) or None,
        "next_try": ours(message, "next_try", clock_ahead_ns),
        "started_by": clean(message.started_by)[:PERSON_LENGTH] or None,
    }
    stopped = end == "request"
    if not told.run_id or not told.HasField("started") or state not in _RUN_STATES:
        return Reported(task, None, {}, stopped)
    return Reported(task, _run(told, task_id, state, end), _emitted(told.accounts), stopped)


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
        "stopped_by": clean(told.stopped_by)[:PERSON_LENGTH] or None,
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
    """A definition for `store.tasks`: scope.v1.Definition as JSON.

    Raises:
        InvalidMessage: it is too large, or JSON or PostgreSQL cannot represent a value.
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
    """The standard text of a UUID.

    Raises:
        InvalidMessage: the text is not a UUID.
    """
    try:
        if len(text) > 36:
            raise ValueError
        return str(UUID(text))
    except ValueError:
        raise InvalidMessage(f"{name}: {text[:40]!r} is not a UUID") from None


def clean(text: str) -> str:
    """A text for people, shortened and without characters that PostgreSQL refuses."""
    return text[:_TEXT].replace("\0", "")


def _probe(name: str, task_id: str) -> str:
    if not name or len(name) > NAME_LENGTH or "\0" in name:
        raise InvalidMessage(f"task {task_id}: definition.probe: must be a name of at most {NAME_LENGTH} characters")
    return name


def _word(kind: Any, value: int, prefix: str) -> str:
    try:
        return str(kind.Name(value)).removeprefix(prefix).lower()
    except ValueError:
        return "unspecified"  # from a newer agent


def ours(message: Any, name: str, clock_ahead_ns: int) -> datetime | None:
    """A time in an agent's message, by our clock; None if it is absent."""
    theirs = moment(getattr(message, name)) if message.HasField(name) else None
    try:
        return theirs and theirs - timedelta(microseconds=clock_ahead_ns // 1000)
    except OverflowError:
        return None


def _finite(number: float) -> float:
    return number if math.isfinite(number) else 0.0
