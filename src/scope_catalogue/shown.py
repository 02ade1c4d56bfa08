"""How a stream's rows are shown and added up: declared beside the stream, read by command line, server and console.

Conditions (`where`) are filters of scope_catalogue.where, such as `draft = 0`; empty: all rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scope_catalogue.tables import AnyTable


@dataclass(frozen=True)
class Flow:
    """Arrows from slice to slice, in order of time: those of slices of a process that have the same values.

    Attributes:
        name: slices of several streams whose flow has the same name belong together.
        by: columns of whole numbers.
        begins: the first slice of a flow is one of these.
        where: which rows belong to a flow.
    """

    name: str
    by: tuple[str, ...]
    begins: bool = False
    where: str = ""


@dataclass(frozen=True)
class Slices:
    """Slices of a timeline, one per row.

    Attributes:
        named: the columns that name a slice, joined by blanks.
        text: the name of every slice, where no column names it.
        lasting: the column with the slice's length; rows without it have no slice. Empty: the slice is a moment.
        ending: the row's time is the end of the slice; otherwise its start.
        on: columns whose values name tracks of the process, each below the one before; rows without the last value
            have no slice.
        below: the name of a track below the thread's, or below those of `on`. Empty: the slice is on that track itself,
            where slices that begin at the same time as others do not belong.
        where: which rows have a slice.
        by_thread: in which rows the row's own thread was in it from begin to end; empty: in all of them. None: others
            may have worked on it, or none; so one may begin before another one ends.
        flow: which of them arrows lead to, or from; None: none.
    """

    named: tuple[str, ...] = ()
    text: str = ""
    lasting: str = "duration_ns"
    ending: bool = False
    on: tuple[str, ...] = ()
    below: str = ""
    where: str = ""
    by_thread: str | None = None
    flow: Flow | None = None


@dataclass(frozen=True)
class Counter:
    """A counter of a timeline: of the row's process or, if the stream has no processes, of the machine.

    Attributes:
        column: the counter's values.
        by: columns that tell counters apart.
        zero_where: in which rows the counter falls to 0.
        after: a column with the time between the row's time and the moment that the value holds from.
    """

    column: str
    by: tuple[str, ...] = ()
    zero_where: str = ""
    after: str = ""

    def name(self, values: Iterable[Any]) -> str:
        """The name of the counter that has these values in `by`, without those that are absent."""
        words = ", ".join(f"{name} {value}" for name, value in zip(self.by, values, strict=True) if value is not None)
        return f"{self.column}: {words}" if words else self.column


@dataclass(frozen=True)
class Switches:
    """Rows that are switches of threads, each timed when its thread left the CPU: tracks of CPUs and states of threads.

    Attributes:
        state: a column with why the thread left, in TASK_* bits; 0: it is runnable.
        next: a column with the tid of the thread that got the CPU.
        lasted: a column with the thread's time on the CPU.
        waited: a column with the time that it had waited for the CPU before.
        waker: a column with the tid of the thread that had woken it.
        waker_process: a column with the waker's pid.
        waker_name: a column with the waker's name.
    """

    state: str
    next: str
    lasted: str
    waited: str
    waker: str
    waker_process: str
    waker_name: str


@dataclass(frozen=True)
class Samples:
    """Rows that are samples of threads: points on their timelines; a part of it has a flame graph.

    Attributes:
        stack: a column of stacks; rows without one are left out.
        where: which rows are samples.
    """

    stack: str = "stack"
    where: str = ""


@dataclass(frozen=True)
class Timeline:
    """What of a stream is shown on a timeline."""

    slices: tuple[Slices, ...] = ()
    counters: tuple[Counter, ...] = ()
    switches: Switches | None = None
    samples: Samples | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the stream is shown."""
        return self == Timeline()


@dataclass(frozen=True)
class FileOf:
    """The file that another stream names for the process of a row.

    Attributes:
        stream: its rows about the process, up to the row's time, name the file. If they name several, none is meant.
        path: its column with the path.
    """

    stream: str
    path: str


@dataclass(frozen=True)
class Span:
    """How a stream's rows are spans of distributed tracing, by the semantic conventions of OpenTelemetry.

    Rows that failed, as the stream says, are spans of errors.

    Attributes:
        kind: `server`, or `internal` to the program.
        attributes: column -> attribute; of absent values there is no attribute.
        files: attribute -> the file whose name is its value; without one, there is no attribute.
        given: attribute -> the value that all spans have.
        named: columns whose values, joined by blanks, name a span.
        text: the name of every span, where no column names it.
        lasting: the column with the span's length, from the row's time on.
        where: which rows are spans.
    """

    kind: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, FileOf] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    text: str = ""
    lasting: str = "duration_ns"
    where: str = ""


@dataclass(frozen=True)
class Flame:
    """How a stream's rows make a flame graph: the stack of each row gets the row's weight.

    Attributes:
        weight: the column that is added up; empty: rows are counted.
        by: columns of text whose values are the outermost frames.
        below: columns of text whose values are called by the innermost frame.
        where: which rows count.
        title: what the graph shows; empty: the stream's meaning.
    """

    weight: str = ""
    by: tuple[str, ...] = ("comm",)
    below: tuple[str, ...] = ()
    where: str = ""
    title: str = ""


@dataclass(frozen=True)
class Shown:
    """How people see a stream's rows.

    Attributes:
        tables: each is shown if it has rows.
        line: what is printed of a row as a line of text, after its time and thread: columns, or texts with columns in
            braces, such as `{name}({args})`. The longest comes last. Empty: as the first table says.
        timeline: what a timeline of the stream shows.
        flame: how its rows make a flame graph; None: they have no stacks.
        span: how its rows are exported as spans; None: they are not.
    """

    tables: tuple[AnyTable, ...] = ()
    line: tuple[str, ...] = ()
    timeline: Timeline = field(default_factory=Timeline)
    flame: Flame | None = None
    span: Span | None = None


@dataclass(frozen=True)
class Rollup:
    """How a stream's rows are added up by the minute: a count and, for one column, a sum and a histogram.

    Attributes:
        by: text columns that make a group, beside the machine.
        count: of a summary, the column with the number of events of a row; empty: one event.
        measured: the column that is added up; of a summary, the column is a sum already.
        histogram: of a summary, the column with the histogram of `measured`.
        where: which rows are added up; it can only compare numbers.
    """

    by: tuple[str, ...] = ("comm",)
    count: str = ""
    measured: str = ""
    histogram: str = ""
    where: str = ""


@dataclass(frozen=True)
class Latest:
    """The states that a stream's rows describe: the newest row of each is kept, and groups of states are added up.

    Attributes:
        key: columns that identify a state within its process: whole numbers or texts, like those of `by`.
        by: columns that make a group of a process's states.
        totals: columns of numbers that are added up; groups are sorted by the first one, which has whole numbers.
        means: column -> the column that weights its mean.
        held: columns that are all 0 once a state has ended; empty: states never end.
        ended: a column that is not 0 in the last rows of a process; empty: no column says so.
    """

    key: tuple[str, ...]
    by: tuple[str, ...]
    totals: tuple[str, ...]
    means: Mapping[str, str] = field(default_factory=dict)
    held: tuple[str, ...] = ()
    ended: str = ""
