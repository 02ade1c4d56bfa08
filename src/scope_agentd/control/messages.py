"""Between the wire's messages and the agent's own objects."""

import uuid
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format, struct_pb2

from scope_agentd.errors import InvalidDefinition
from scope_agentd.pipeline.ship import Shipper
from scope_agentd.tasks import Definition, Task, define
from scope_proto.scope.v1 import control_pb2

if TYPE_CHECKING:  # an idle agent does without numpy and Arrow
    from scope_bpf.catalogue import Probe
    from scope_bpf.doctor import Finding
    from scope_bpf.options import Option


def definition_of(request: control_pb2.StartTaskRequest) -> Definition:
    """The task that a request asks for.

    Raises:
        InvalidDefinition: no probe is named, or the duration is none.
        UnknownProbe, InvalidOption, TargetNotFound: see `define`.
    """
    from scope_bpf.targets import Target

    if not request.probe:
        raise InvalidDefinition("probe: name one; ListProbes has those there are")
    if request.target.pid < 0:
        raise InvalidDefinition(f"target.pid: {request.target.pid} is no process")
    duration_s = request.duration.ToNanoseconds() / 1e9 if request.HasField("duration") else None
    if duration_s is not None and duration_s <= 0:
        raise InvalidDefinition("duration: give more than 0 seconds, or leave it out to run until stopped")
    target = Target(**{field.name: value for field, value in request.target.ListFields()})
    return define(request.probe, target, json_format.MessageToDict(request.options), duration_s)


def task_id_of(request: control_pb2.StartTaskRequest) -> str:
    """The id that a request gives, as UUIDs are written; empty if it gives none.

    Raises:
        InvalidDefinition: it is no UUID.
    """
    try:
        return str(uuid.UUID(request.task_id)) if request.task_id else ""
    except ValueError:
        raise InvalidDefinition(f"task_id: {request.task_id[:40]!r} is no UUID; give one, or none") from None


def task_message(task: Task, shipper: Shipper) -> control_pb2.Task:
    """A task as the contracts describe it."""
    definition = task.definition
    options = {name: list(value) if isinstance(value, tuple) else value for name, value in definition.options.items()}
    message = control_pb2.Task(
        task_id=task.task_id,
        probe=definition.probe.name,
        target=control_pb2.Target(**vars(definition.target)),
        options=json_format.ParseDict(options, struct_pb2.Struct()),
        state=control_pb2.TaskState.Value(f"TASK_STATE_{task.state.name}"),
        end=control_pb2.TaskEnd.Value(f"TASK_END_{task.end.name}"),
        error=task.error,
        attach_point=task.attach_point,
        accounts={stream.name: task.books.account(stream.name) for stream in definition.probe.public_streams},
        sent_bytes=shipper.sent_bytes.get(task.task_id, 0),
        cost=control_pb2.Cost(**vars(task.cost)),
    )
    if definition.duration_s is not None:
        message.duration.FromNanoseconds(int(definition.duration_s * 1e9))
    if task.started_ns:
        message.started.FromNanoseconds(task.started_ns)
    if task.ended_ns:
        message.ended.FromNanoseconds(task.ended_ns)
    return message


def probe_message(probe: "Probe", finding: "Finding") -> control_pb2.Probe:
    """A probe of the catalogue, and what this host makes of it."""
    from scope_bpf.stream import fingerprint

    message = control_pb2.Probe(
        name=probe.name,
        meaning=probe.meaning,
        available=finding.available,
        attach_point=finding.attach_point,
        reason=finding.reason,
        options=[_option_message(option) for option in probe.options],
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


def _option_message(option: "Option") -> control_pb2.Option:
    default: Any = list(option.default) if isinstance(option.default, tuple) else option.default
    return control_pb2.Option(
        name=option.name,
        type=option.type,
        default=json_format.ParseDict(default, struct_pb2.Value()),
        meaning=option.meaning,
        choices=option.choices if option.type == "choice" else (),
        minimum=option.minimum,
        maximum=option.maximum,
    )
