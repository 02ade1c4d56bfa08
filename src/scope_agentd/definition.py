"""What a task is to do, checked as far as that needs no privileges."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format, struct_pb2

from scope_agentd.errors import InvalidDefinition
from scope_proto.scope.v1 import task_pb2

if TYPE_CHECKING:  # an idle agent does without numpy and Arrow
    from scope_bpf.catalogue.probe import Probe
    from scope_bpf.catalogue.target import Target


@dataclass(frozen=True)
class Definition:
    """A probe, whom it watches, and all its options; `duration_s` is None for "until stopped"."""

    probe: "Probe"
    target: "Target"
    options: Mapping[str, Any]
    duration_s: float | None = None

    def message(self) -> task_pb2.Definition:
        """As the contracts describe it, with every option; those without a value, which nobody can give, left out."""
        options = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self.options.items()
            if value != ()
        }
        described = task_pb2.Definition(
            probe=self.probe.name,
            target=task_pb2.Target(**{name: value for name, value in vars(self.target).items() if value}),
            options=json_format.ParseDict(options, struct_pb2.Struct()),
        )
        if self.duration_s is not None:
            described.duration.FromNanoseconds(int(self.duration_s * 1e9))
        return described


def check_definition(wanted: task_pb2.Definition) -> Definition:
    """The definition that a message asks for.

    Raises:
        InvalidDefinition: no probe is named, or the duration is none.
        UnknownProbe, InvalidOption, InvalidTarget: the catalogue has no such thing, or a field names nobody.
        TargetNotFound: nobody is there to be watched.
    """
    from scope_bpf.catalogue.options import parse_options
    from scope_bpf.catalogue.target import target_of
    from scope_bpf.probes import probe_named

    if not wanted.probe:
        raise InvalidDefinition("probe: name one; ListProbes has those there are")
    duration_s = wanted.duration.ToNanoseconds() / 1e9 if wanted.HasField("duration") else None
    if duration_s is not None and duration_s <= 0:
        raise InvalidDefinition("duration: give more than 0 seconds, or leave it out to run until stopped")
    probe = probe_named(wanted.probe)
    target = target_of({field.name: value for field, value in wanted.target.ListFields()})
    target.conditions()
    options = parse_options(probe.options, json_format.MessageToDict(wanted.options))
    return Definition(probe, target, options, duration_s)
