"""The definition of a probe: its streams, columns and options. Needs neither privileges nor the extension.

A probe is a module in `scope_bpf.probes` that defines `PROBE`, and an object `objects/NAME.bpf.o`. The C structs in the
object define the columns; Python defines their meanings. Both are compared whenever a layout is read. A sampling probe
has no object: user space asks a library at intervals.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from scope_bpf.catalogue.place import Place
from scope_bpf.catalogue.stream import Stream
from scope_bpf.errors import LayoutMismatch, NotSupported
from scope_bpf.layout.btf import Btf
from scope_bpf.layout.fields import Layout, layout_of
from scope_catalogue.guide import Guide
from scope_catalogue.options import MODE, RING_BYTES, SAMPLE_INTERVAL_MS, SUMMARY_INTERVAL_MS, Option
from scope_catalogue.stream import Mode

OBJECTS = Path(__file__).parents[1] / "objects"


@dataclass(frozen=True)
class Alternative:
    """A way to attach a probe. `name` lists the hooks for people.

    Attributes:
        programs: attached in this order, detached in reverse, besides the programs of the probe's places. The program
            that sees the end of a call comes before the program that sees its start; so no start is kept without its
            end.
        uprobe_multi: attach to all places of a file at once (Linux 6.6 and later).
        software_events: programs that run at each event of a kind that the kernel itself counts, such as page faults,
            with its enumerator of `enum perf_sw_ids`, which the object shares; attached before the others.
        unseen: what watched processes may do that is not recorded so, by kind: those of `enum scope_unseen`, which the
            programs count (unseen.bpf.h).
    """

    name: str
    programs: tuple[str, ...] = ()
    uprobe_multi: bool = False
    software_events: Mapping[str, str] = field(default_factory=dict)
    unseen: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hooks:
    """Programs that options choose; `programs` and `software_events` as in Alternative.

    Attributes:
        sampled: programs that run at regular times on every CPU, idle or not, with how often a second; attached last.
        last: programs that are attached last, once the target's files are known.
    """

    programs: tuple[str, ...] = ()
    software_events: Mapping[str, str] = field(default_factory=dict)
    sampled: Mapping[str, int] = field(default_factory=dict)
    last: tuple[str, ...] = ()

    def __add__(self, other: "Hooks") -> "Hooks":
        return Hooks(
            self.programs + other.programs,
            {**self.software_events, **other.software_events},
            {**self.sampled, **other.sampled},
            self.last + other.last,
        )


class Sampler(Protocol):
    """The source of a sampling probe, such as a library."""

    @property
    def source(self) -> str:
        """The name and version of the source; shown where other probes show their hooks."""

    def sample(self) -> Mapping[str, list[dict[str, Any]]]:
        """The current rows by stream, without times; unknown values are None or missing."""

    def close(self) -> None:
        """Releases the source."""


@dataclass(frozen=True)
class Probe:
    """A probe.

    Attributes:
        alternatives: best first; the first that loads and attaches on this host is used. A sampling probe has none.
        extra_options: options besides those that every probe has.
        ring_bytes: size of a ring in events mode; a summary needs less.
        hooks: computes from the validated options what is attached besides the programs of the alternative.
        constants: computes the values of the object's read-only variables from the validated options.
        places: computes the places in user space from the validated options. They are looked up in all files that
            watched processes map.
        libraries: prefixes of library names. Installed libraries with these names are attached to before a process maps
            them.
        kept_by_process: names of maps with a struct NAME_key; entries of ended processes are deleted.
        resolver: makes the `Resolver` (scope_bpf.code.resolver) that computes the resolved columns, from a loaded
            object, its modules and the validated options.
        resolves: computes from the validated options whether any column is resolved and anything is kept by process.
        sampler: makes the `Sampler` of a sampling probe; raises NotSupported if this host has no such source.
        found_by: iter programs that find what the target had before the trace began, such as open sockets; they run
            once all programs are attached, and when the target changes.
        guide: examples, notes and limits for people.
    """

    name: str
    meaning: str
    streams: tuple[Stream, ...]
    alternatives: tuple[Alternative, ...] = ()
    extra_options: tuple[Option, ...] = ()
    ring_bytes: int = 1 << 20
    hooks: Callable[[Mapping[str, Any]], Hooks] = lambda _: Hooks()
    constants: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {}
    places: Callable[[Mapping[str, Any]], Sequence[Place]] = lambda _: ()
    libraries: tuple[str, ...] = ()
    kept_by_process: tuple[str, ...] = ()
    resolver: Callable[..., Any] | None = None
    resolves: Callable[[Mapping[str, Any]], bool] = lambda _: True
    sampler: Callable[[], Sampler] | None = None
    found_by: tuple[str, ...] = ()
    guide: Guide = field(default_factory=Guide)

    @property
    def options(self) -> tuple[Option, ...]:
        """All options of the probe."""
        if self.sampler:
            return (SAMPLE_INTERVAL_MS, *self.extra_options)
        common: tuple[Option, ...] = (RING_BYTES,)
        if self.has_mode(Mode.SUMMARY):
            common = (SUMMARY_INTERVAL_MS, *common)
        # States are in every mode.
        if self.has_mode(Mode.EVENTS) and any(not one.internal for one in self.summaries):
            common = (MODE, *common)
        return (*common, *self.extra_options)

    def has_mode(self, mode: Mode) -> bool:
        """Whether rows of this mode leave the tracer."""
        return any(stream.mode is mode for stream in self.public_streams)

    def mode_of(self, options: Mapping[str, Any]) -> Mode:
        """The mode in the validated options, or the probe's only mode."""
        if self.sampler:
            return Mode.SAMPLES
        return Mode(options.get("mode", Mode.EVENTS if self.has_mode(Mode.EVENTS) else Mode.SUMMARY))

    @property
    def event_streams(self) -> tuple[Stream, ...]:
        """The streams with a row for each event."""
        return tuple(stream for stream in self.streams if stream.mode is Mode.EVENTS)

    @property
    def summaries(self) -> tuple[Stream, ...]:
        """The streams with counts per interval, including those that add up others."""
        return tuple(stream for stream in self.streams if stream.mode is Mode.SUMMARY and not stream.is_gauge)

    @property
    def states(self) -> tuple[Stream, ...]:
        """The streams of states that BPF programs keep."""
        return tuple(stream for stream in self.streams if stream.is_gauge)

    @property
    def counted_streams(self) -> tuple[Stream, ...]:
        """The streams whose rows and losses BPF programs count, in the order of their numbers: events first."""
        counted = [stream for stream in (*self.summaries, *self.states) if not stream.adds_up]
        return (*self.event_streams, *counted)

    def reads_processes(self, options: Mapping[str, Any]) -> bool:
        """Whether user space reads the events' processes in /proc: for their files, or to notice their end."""
        return bool(self.follows_files(options) or self.sweeps(options) or self.states)

    def follows_files(self, options: Mapping[str, Any]) -> bool:
        """Whether the files that processes map are followed, to attach to them or to resolve columns."""
        return bool(self.places(options) or (self.resolver and self.resolves(options)))

    def sweeps(self, options: Mapping[str, Any]) -> bool:
        """Whether entries of ended processes are deleted from maps."""
        return bool(self.kept_by_process and self.resolves(options))

    @property
    def public_streams(self) -> tuple[Stream, ...]:
        """The streams whose rows leave the tracer and are stored."""
        return tuple(stream for stream in self.streams if not stream.internal)

    def streams_of(self, mode: Mode) -> tuple[Stream, ...]:
        """The streams that run in this mode; all streams if the probe has only one mode."""
        if not self.has_mode(mode):
            return self.streams
        return tuple(stream for stream in self.streams if stream.mode is mode or stream.is_gauge)

    @cached_property
    def elf(self) -> bytes:
        """The compiled object.

        Raises:
            NotSupported: the object was not built.
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
        """The layout of one of the probe's streams; empty for samples."""
        if stream.mode is Mode.SAMPLES:
            return Layout(0, ())
        return stream.layout(self.btf)

    def key_layout(self, name: str) -> Layout:
        """The layout of a map's keys.

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
