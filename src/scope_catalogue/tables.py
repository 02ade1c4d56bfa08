"""Tables of a stream's rows, as data: groups of rows with cells, the latest rows, or the slowest ones.

Conditions (`where`) are filters of scope_catalogue.where, such as `draft = 0`; empty: all rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scope_catalogue.encoding import Variant


@dataclass(frozen=True)
class Count(Variant):
    """How many rows: of a stream of events, how many events."""


@dataclass(frozen=True)
class Failed(Variant):
    """How many rows failed, by the stream's `failed`."""


@dataclass(frozen=True)
class Sum(Variant):
    """The sum of a column; of a stream of states, the value. Rows that failed add no bytes."""

    column: str


@dataclass(frozen=True)
class Share(Variant):
    """The sum of a column as a share of what ranks the group."""

    column: str


@dataclass(frozen=True)
class Quantiles(Variant):
    """Median, 99th percentile and maximum of a column with durations; of a summary, with their histograms."""

    column: str


@dataclass(frozen=True)
class Rate(Variant):
    """One sum over another, a second.

    Attributes:
        amount: a column of bytes, or of something else.
        duration: a column of ns.
        where: which rows are added up.
        name: the heading.
    """

    amount: str
    duration: str
    where: str = ""
    name: str = "rate"


@dataclass(frozen=True)
class Inclusive(Variant):
    """The sum of a column over all rows with the function in their stack; for groups by function.

    Attributes:
        stack: a column of stacks.
        column: what is added up; empty: rows are counted.
        of: the column that groups are by: `function`, the innermost frame, or `python`, the innermost one of Python's.
    """

    stack: str
    column: str = ""
    of: str = "function"


Cell = Count | Failed | Sum | Share | Quantiles | Rate | Inclusive


@dataclass(frozen=True)
class Table(Variant):
    """A line per group of rows.

    Attributes:
        by: the columns whose values make a group. Of states, each state is a group, and these are shown of it.
        cells: what is shown of a group.
        ranked_by: columns of sums: groups are sorted by their sum, the largest first, and a group's share is its share
            of it. Empty: the last sum or, without one, the number of rows.
        title: what the table shows; empty: the stream's meaning.
    """

    by: tuple[str, ...]
    cells: tuple[Cell, ...] = (Count(),)
    ranked_by: tuple[str, ...] = ()
    where: str = ""
    title: str = ""


@dataclass(frozen=True)
class LatestRows(Variant):
    """The latest rows, with these columns."""

    columns: tuple[str, ...]
    title: str = ""


@dataclass(frozen=True)
class SlowestRows(Variant):
    """The rows with the longest durations, and what took longer in them than in the median row.

    Attributes:
        columns: what is shown of a row.
        duration: the column of durations.
        parts: columns of durations that it is the sum of.
        causes: conditions of rows that something slowed, with what that was: told before what took longer.
    """

    columns: tuple[str, ...]
    duration: str
    parts: tuple[str, ...]
    causes: Mapping[str, str] = field(default_factory=dict)
    where: str = ""
    title: str = ""


AnyTable = Table | LatestRows | SlowestRows
