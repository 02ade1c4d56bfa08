"""What is exported, and the contract of those that read and send it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

Value = int | float
Labels = tuple[tuple[str, str], ...]


class Kind(StrEnum):
    """What the values of points are: of one minute, as of now, or counted since a begin."""

    MINUTE = "minute"
    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True)
class Measurement:
    """What is measured.

    Attributes:
        name: of a stream, or of a metric.
        units: of values, by their names.
    """

    name: str
    meaning: str
    kind: Kind
    units: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Point:
    """Values at a time. A point with the same measurement, labels and time as an earlier one replaces that one.

    Attributes:
        since_ns: the begin of what a minute or a counter counts; since 1970, as `time_ns`.
    """

    of: Measurement
    labels: Labels
    values: Mapping[str, Value]
    time_ns: int
    since_ns: int


@dataclass(frozen=True)
class Span:
    """A request, for distributed tracing. A span that is sent again has the same ids.

    Attributes:
        resource: attributes of the process that served it.
        begin_ns, end_ns: since 1970.
    """

    name: str
    kind: str
    trace_id: bytes
    span_id: bytes
    begin_ns: int
    end_ns: int
    resource: Labels
    attributes: Mapping[str, str | Value]
    failed: bool


Item = Point | Span


@dataclass(frozen=True)
class Portion:
    """What is new since a position.

    Attributes:
        position: where to go on when all of it was sent.
        more: whether more may be there already.
    """

    items: Sequence[Item]
    position: str
    more: bool


@dataclass(frozen=True)
class Skipped:
    """The position of now, and how much is left out.

    Attributes:
        count: minutes of streams, or rows.
    """

    position: str
    count: int


class Source(Protocol):
    """Reads what is new. A position is opaque to others; it is empty at first: then only what comes later is new."""

    @property
    def name(self) -> str:
        """Such as `spans`."""

    @property
    def every_s(self) -> float:
        """Time between two reads."""

    async def read(self, position: str) -> Portion:
        """What is new since a position.

        Raises:
            StoreUnavailable: the database cannot be reached.
            InvalidQuery: the position is none of this source.
            QueryTooSlow: the database takes too long.
        """

    async def skip(self, position: str) -> Skipped:
        """Gives up what is new since a position.

        Raises:
            StoreUnavailable, InvalidQuery: as for `read`.
        """


class Target(Protocol):
    """Sends items of one kind, and returns how many the other side refuses for good.

    Attributes:
        name: such as `otlp`.
        most: items that it takes at a time.
    """

    name: str
    most: int

    async def send(self, items: Sequence[Item]) -> int:
        """Sends at most `most` items; returns when they are acknowledged, with the number of refused ones.

        Raises:
            TargetUnavailable: none is acknowledged; the same may succeed later.
        """

    async def close(self) -> None:
        """Ends its connections."""
