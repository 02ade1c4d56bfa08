"""Conversion between gRPC messages and the agent's objects."""

import uuid
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format, struct_pb2

from scope_agentd.errors import InvalidDefinition
from scope_agentd.run import Run
from scope_agentd.task import Task
from scope_proto.scope.v1 import control_pb2, task_pb2

if TYPE_CHECKING:  # an idle agent must not load numpy and Arrow
    from scope_bpf.capture.doctor import Finding
    from scope_bpf.catalogue.probe import Probe
    from scope_bpf.host import Feature
    from scope_catalogue.options import Option


def task_id_of(request: control_pb2.StartTaskRequest) -> str:
    """The task id in a request, as the text of a UUID; empty if the request has none.

    Raises:
        InvalidDefinition: the id is not a UUID.
    """
    try:
        return str(uuid.UUID(request.task_id)) if request.task_id else ""
    except ValueError:
        raise InvalidDefinition(
            f"task_id: {request.task_id[:40]!r} is not a UUID; give a UUID or leave it out"
        ) from None


def task_message(task: Task) -> control_pb2.Task:
    """The message for a task and its latest run."""
    message = control_pb2.Task(
        task_id=task.wanted.task_id,
        origin=task.wanted.origin,
        definition=task.definition.message() if task.definition else task.wanted.definition,
        run=_run_message(task),
        started_by=task.wanted.started_by,
    )
    if task.wanted.deadline_ns:
        message.deadline.FromNanoseconds(task.wanted.deadline_ns)
    if task.next_try_ns:
        message.next_try.FromNanoseconds(task.next_try_ns)
    return message


def _run_message(task: Task) -> control_pb2.Run:
    run = task.run
    if run is None or not run.progress.recorded:
        task_id = task.wanted.task_id
        return control_pb2.Run(
            task_id=task_id, state=task.state, end=task.unwanted, error=task.error, stopped_by=task.stopped_by
        )
    return _recorded(task.wanted.task_id, run)


def _recorded(task_id: str, run: Run) -> control_pb2.Run:
    progress = run.progress
    message = control_pb2.Run(
        run_id=str(uuid.UUID(bytes=run.run_id)),
        task_id=task_id,
        state=progress.state,
        end=progress.end if run.over.is_set() else task_pb2.TASK_END_UNSPECIFIED,
        error=progress.error,
        stopped_by=progress.stopped_by,
        attach_point=progress.attach_point,
        accounts=run.books.accounts(),
        sequenced=run.books.sequenced(),
        sent_bytes=progress.spooled_bytes,
        cost=progress.cost,
        notes=run.notes(),
    )
    message.started.FromNanoseconds(progress.started_ns)
    if progress.ended_ns:
        message.ended.FromNanoseconds(progress.ended_ns)
    return message


def probe_message(probe: "Probe", finding: "Finding") -> control_pb2.Probe:
    """The message for a probe, with its availability on this host."""
    from scope_catalogue.stream import fingerprint

    message = control_pb2.Probe(
        name=probe.name,
        meaning=probe.meaning,
        available=finding.available,
        attach_point=finding.attach_point,
        reason=finding.reason,
        no_device=finding.no_device,
        unseen=finding.unseen,
        tried=[control_pb2.Trial(option=one.option, reason=one.reason) for one in finding.tried],
        options=[option_message(option) for option in probe.options],
    )
    for stream in probe.public_streams:
        schema = probe.schema(stream)
        described = message.streams.add(
            name=stream.name, meaning=stream.meaning, mode=stream.mode, schema_fingerprint=fingerprint(schema)
        )
        for name, column in stream.described().items():
            type_ = str(schema.field(name).type)
            described.columns.add(name=name, type=type_, unit=column.unit, meaning=column.meaning)
    return message


def feature_message(feature: "Feature") -> control_pb2.Feature:
    """The message for a feature of the host."""
    return control_pb2.Feature(name=feature.name, available=feature.available, reason=feature.reason)


def option_message(option: "Option") -> control_pb2.Option:
    """The message for an option."""
    default: Any = list(option.default) if isinstance(option.default, tuple) else option.default
    return control_pb2.Option(
        name=option.name,
        type=option.type,
        default=json_format.ParseDict(default, struct_pb2.Value()),
        meaning=option.meaning,
        choices=option.choices if option.type == "choice" else (),
        minimum=option.minimum,
        maximum=option.maximum,
        required=bool(option.example),
    )
