"""How a stream's rows are shown and added up: declared beside the stream, read by command line, server and console.

Capture knows nothing of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True)
class Live:
    """What a live table of a stream shows: a line per group, or, if it groups by nothing, the latest rows.

    Attributes:
        by: columns that make a group.
        totals: columns added up per group, after the number of rows; the last one ranks the groups. Of a gauge, its
            latest values, without the number of rows.
        quantiles: a column whose median and 99th percentile are shown per group.
        told_apart: columns that tell a gauge's groups apart and are not shown.
        failures: a column that is negative in rows to be counted as failed.
        latest: columns of the latest rows.
        unless: a column; rows in which it is not 0 are not counted in groups.
        only: a column; rows in which it is absent or 0 are not counted in groups.
        failed: a column; rows in which it is not 0 add no bytes to totals.
        rate: a column of bytes a second; of the rows that have it, their bytes by their durations, all in all.
        title: what the table is of; empty: the stream's meaning.
    """

    by: tuple[str, ...] = ()
    totals: tuple[str, ...] = ()
    quantiles: str = ""
    told_apart: tuple[str, ...] = ()
    failures: str = ""
    latest: tuple[str, ...] = ()
    unless: str = ""
    only: str = ""
    failed: str = ""
    rate: str = ""
    title: str = ""


@dataclass(frozen=True)
class Timeline:
    """What of a stream is shown on a timeline: slices as long as `duration_ns`, a counter of bytes.

    Attributes:
        name: the column that names a row's slice, on the track of its thread; empty: no slices.
        also_on: columns by which the slices are on a further track of the process, one within the other; those without
            the innermost are on none.
        also_named: columns that name them there.
        unless: a column; rows in which it is not 0 are on the thread's track only.
        counter: a column that is shown as a counter of the process.
        counter_by: columns that tell its counters apart.
        zero_if: a column; where it is not 0 the counter falls to 0.
    """

    name: str = ""
    also_on: tuple[str, ...] = ()
    also_named: tuple[str, ...] = ()
    unless: str = ""
    counter: str = ""
    counter_by: tuple[str, ...] = ()
    zero_if: str = ""


class Failed(StrEnum):
    """How a column tells that a row failed."""

    BELOW_ZERO = "below_zero"  # such as -errno
    NOT_ZERO = "not_zero"
    COUNTED = "counted"  # of a summary: so many did


@dataclass(frozen=True)
class Rollup:
    """What a stream's rows are added up to by the minute: a count, and of one column a sum and a histogram.

    Attributes:
        by: text columns that make a group, beside the machine.
        count: of a summary, the column with how many a row stands for; empty: one.
        measured: the column that is added up; of a summary, it is a sum already.
        histogram: of a summary, the column with its counts by powers of two.
        failed: a column that tells which failed, as `failed_if` says.
        unless: a column; rows in which it is not 0 are left out.
    """

    by: tuple[str, ...] = ("comm",)
    count: str = ""
    measured: str = ""
    histogram: str = ""
    failed: str = ""
    failed_if: Failed = Failed.BELOW_ZERO
    unless: str = ""


@dataclass(frozen=True)
class Latest:
    """Which states a stream's rows tell: of each, the newest row is kept at hand, and groups of them are added up.

    Attributes:
        key: columns that tell the states of a process apart; whole numbers or texts, like those of `by`.
        by: columns that make a group of a process's states.
        totals: columns of numbers that are added up; the first, of whole ones, ranks the groups.
        means: columns of which the mean is taken, each weighed by another column.
        held: columns that are all 0 in states that are over; none: no state ever is.
        ended: a column that is not 0 in the last rows of a process; empty: none tells.
    """

    key: tuple[str, ...]
    by: tuple[str, ...]
    totals: tuple[str, ...]
    means: Mapping[str, str] = field(default_factory=dict)
    held: tuple[str, ...] = ()
    ended: str = ""
