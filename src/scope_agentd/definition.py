"""Definitions of tasks, checked as far as possible without privileges."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format, struct_pb2

from scope_agentd.errors import InvalidDefinition
from scope_proto.scope.v1 import task_pb2

if TYPE_CHECKING:  # an idle agent must not load numpy and Arrow
    from scope_bpf.catalogue.probe import Probe
    from scope_bpf.catalogue.target import Target
    from scope_views.choice import Choice


@dataclass(frozen=True)
class Definition:
    """A probe, its target and all its options.

    Attributes:
        where: a filter on the rows; empty: all rows.
        choice: the rows that it takes.
        narrowed: the options of the tracer: those that nobody chose are such that it records what the filter reads.
        duration_s: None: until stopped.
    """

    probe: "Probe"
    target: "Target"
    options: Mapping[str, Any]
    where: str
    choice: "Choice"
    narrowed: Mapping[str, Any]
    duration_s: float | None

    def message(self) -> task_pb2.Definition:
        """The definition as a message, with all options. Options with the value None are left out: no user can give
        None."""
        options = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self.options.items()
            if value != ()
        }
        described = task_pb2.Definition(
            probe=self.probe.name,
            target=task_pb2.Target(**{name: value for name, value in vars(self.target).items() if value}),
            options=json_format.ParseDict(options, struct_pb2.Struct()),
            where=self.where,
        )
        if self.duration_s is not None:
            described.duration.FromNanoseconds(int(self.duration_s * 1e9))
        return described


def check_definition(wanted: task_pb2.Definition) -> Definition:
    """The checked definition from a message.

    Raises:
        InvalidDefinition: the probe is missing, or the duration is not positive.
        InvalidFilter: the filter suits none of the streams that the task records.
        UnknownProbe, InvalidOption, InvalidTarget: the catalogue has no such probe or option, or a value is not
            allowed.
        TargetNotFound: the target does not exist.
    """
    from scope_bpf.catalogue.described import described
    from scope_bpf.catalogue.target import target_of
    from scope_bpf.probes import probe_named
    from scope_catalogue.options import parse_options
    from scope_views.choice import Choice

    if not wanted.probe:
        raise InvalidDefinition("probe: missing; give a name from ListProbes")
    duration_s = wanted.duration.ToNanoseconds() / 1e9 if wanted.HasField("duration") else None
    if duration_s is not None and duration_s <= 0:
        raise InvalidDefinition("duration: give more than 0 seconds, or leave it out to run until stopped")
    probe = probe_named(wanted.probe)
    target = target_of({field.name: value for field, value in wanted.target.ListFields()})
    target.conditions()
    options = parse_options(probe.options, json_format.MessageToDict(wanted.options))
    choice = Choice(wanted.where, described(probe).recorded(options))
    narrowed = choice.narrowed(probe.name, probe.options, options)
    return Definition(probe, target, options, wanted.where, choice, narrowed, duration_s)
