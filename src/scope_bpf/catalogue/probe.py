"""The catalogue: every probe with its streams, columns and options. Needs neither privileges nor the extension.

A probe is a module in `scope_bpf.probes` with a `PROBE`, beside its `objects/NAME.bpf.o`. The C structs in the object
say which columns there are; Python says what they mean, and the two are compared whenever a layout is read. A probe of
samples has no object: user space asks a library at intervals.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from scope_bpf.catalogue.options import MODE, RING_BYTES, SAMPLE_INTERVAL_MS, SUMMARY_INTERVAL_MS, Option
from scope_bpf.catalogue.place import Place
from scope_bpf.catalogue.stream import Mode, Stream
from scope_bpf.errors import LayoutMismatch, NotSupported
from scope_bpf.layout.btf import Btf
from scope_bpf.layout.fields import Layout, layout_of

OBJECTS = Path(__file__).parents[1] / "objects"


@dataclass(frozen=True)
class Alternative:
    """A way to attach: the programs it takes beside those of the probe's places. `name` says which hooks they are.

    Attributes:
        programs: attached in this order, detached in the opposite one: what sees the end of a call before what sees
            its begin, so that no begin is kept whose end is missed.
        uprobe_multi: attach to all places of a file at once, which kernels have since 6.6.
        software_events: programs that run at each event of a kind that the kernel counts, with its enumerator of
            `enum perf_sw_ids`, which the object shares; attached before the others.
    """

    name: str
    programs: tuple[str, ...] = ()
    uprobe_multi: bool = False
    software_events: Mapping[str, str] = field(default_factory=dict)


class Sampler(Protocol):
    """What a probe of samples looks at."""

    @property
    def source(self) -> str:
        """What it reads, with its version: shown where other probes show what they are attached to."""

    def sample(self) -> Mapping[str, list[dict[str, Any]]]:
        """Rows by stream, without their times; a column that cannot be known is None or missing."""

    def close(self) -> None:
        """Lets go of what it reads."""


@dataclass(frozen=True)
class Probe:
    """A probe as the catalogue knows it.

    Attributes:
        alternatives: best first; the first that this host loads and attaches is taken. None for a probe of samples.
        extra_options: options beside those every probe has.
        ring_bytes: how large a ring has to be for the rates at which events come; a summary needs little.
        constants: from validated options to the values of the object's read-only variables.
        places: from validated options to places in user space, looked for in the files that watched processes have
            mapped.
        libraries: beginnings of names; those installed are attached to before anybody runs them.
        kept_by_process: maps `NAME` with a struct NAME_key; entries of processes that have ended are taken out.
        resolver: makes what computes the streams' resolved columns: the `Resolver` (scope_bpf.code.resolver) of a
            loaded object and its modules.
        resolves: from validated options to whether anything is resolved, and kept by process for it.
        sampler: makes what a probe of samples looks at; raises NotSupported where there is nothing to look at.
    """

    name: str
    meaning: str
    streams: tuple[Stream, ...]
    alternatives: tuple[Alternative, ...] = ()
    extra_options: tuple[Option, ...] = ()
    ring_bytes: int = 1 << 20
    constants: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {}
    places: Callable[[Mapping[str, Any]], Sequence[Place]] = lambda _: ()
    libraries: tuple[str, ...] = ()
    kept_by_process: tuple[str, ...] = ()
    resolver: Callable[..., Any] | None = None
    resolves: Callable[[Mapping[str, Any]], bool] = lambda _: True
    sampler: Callable[[], Sampler] | None = None

    @property
    def options(self) -> tuple[Option, ...]:
        """Every option the probe takes."""
        if self.sampler:
            return (SAMPLE_INTERVAL_MS, *self.extra_options)
        common: tuple[Option, ...] = (RING_BYTES,)
        if self.has_mode(Mode.SUMMARY):
            common = (SUMMARY_INTERVAL_MS, *common)
        if self.has_mode(Mode.SUMMARY) and self.has_mode(Mode.EVENTS):
            common = (MODE, *common)
        return (*common, *self.extra_options)

    def has_mode(self, mode: Mode) -> bool:
        """Whether rows of this mode leave the tracer."""
        return any(stream.mode is mode for stream in self.public_streams)

    def mode_of(self, options: Mapping[str, Any]) -> Mode:
        """The mode that validated options ask for, or the only one that the probe has."""
        if self.sampler:
            return Mode.SAMPLES
        return Mode(options.get("mode", Mode.EVENTS if self.has_mode(Mode.EVENTS) else Mode.SUMMARY))

    @property
    def event_streams(self) -> tuple[Stream, ...]:
        """The streams with a row for each event."""
        return tuple(stream for stream in self.streams if stream.mode is Mode.EVENTS)

    @property
    def summaries(self) -> tuple[Stream, ...]:
        """The streams of what is counted by interval, those that add others up among them."""
        return tuple(stream for stream in self.streams if stream.mode is Mode.SUMMARY and not stream.gauge)

    @property
    def states(self) -> tuple[Stream, ...]:
        """The streams of states that programs keep."""
        return tuple(stream for stream in self.streams if stream.mode is Mode.SUMMARY and stream.gauge)

    @property
    def counted_streams(self) -> tuple[Stream, ...]:
        """The streams that programs count rows and losses of, in the order of their numbers: events first."""
        counted = [stream for stream in (*self.summaries, *self.states) if not stream.adds_up]
        return (*self.event_streams, *counted)

    def reads_processes(self, options: Mapping[str, Any]) -> bool:
        """Whether user space looks in /proc at the processes that events are of: for their files, or for their end."""
        return bool(self.follows_files(options) or self.sweeps(options) or self.states)

    def follows_files(self, options: Mapping[str, Any]) -> bool:
        """Whether the files that processes run are followed, to attach in them or to resolve columns by them."""
        return bool(self.places(options) or (self.resolver and self.resolves(options)))

    def sweeps(self, options: Mapping[str, Any]) -> bool:
        """Whether maps are swept of what processes have left."""
        return bool(self.kept_by_process and self.resolves(options))

    @property
    def public_streams(self) -> tuple[Stream, ...]:
        """The streams whose rows leave the tracer, and which have tables."""
        return tuple(stream for stream in self.streams if not stream.internal)

    def streams_of(self, mode: Mode) -> tuple[Stream, ...]:
        """The streams that run in this mode; all of them if the probe has but one mode."""
        if not self.has_mode(mode):
            return self.streams
        return tuple(stream for stream in self.streams if stream.mode is mode or stream.gauge)

    @cached_property
    def elf(self) -> bytes:
        """The compiled object.

        Raises:
            NotSupported: it was not built.
        """
        path = OBJECTS / f"{self.name}.bpf.o"
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise NotSupported(f"{path} is missing; run `make objects`") from None

    @cached_property
    def btf(self) -> Btf:
        """The object's types."""
        return Btf(self.elf)

    def layout(self, stream: Stream) -> Layout:
        """The layout of one of the probe's streams; that of samples is empty."""
        if stream.mode is Mode.SAMPLES:
            return Layout(0, ())
        return stream.layout(self.btf)

    def key_layout(self, name: str) -> Layout:
        """The layout of the keys of a map.

        Raises:
            LayoutMismatch: there is no struct NAME_key.
        """
        struct = self.btf.struct(f"{name}_key")
        if struct is None:
            raise LayoutMismatch(f"probe '{self.name}': the object has no struct {name}_key")
        return layout_of(struct)

    def schema(self, stream: Stream) -> pa.Schema:
        """The Arrow schema of one of the probe's streams."""
        return stream.schema(self.layout(stream))
