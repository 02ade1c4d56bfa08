"""How rows of a stream last, and whether their own thread was in them: as their timeline shows them."""

from dataclasses import dataclass

from scope_catalogue.condition import Condition, columns_read
from scope_catalogue.shown import Slices
from scope_catalogue.where import read_filter
from scope_server.errors import InvalidQuery
from scope_server.store.schema.columns import WHOLE, Kind, StreamTable


@dataclass(frozen=True)
class Lasting:
    """How rows of a stream last.

    Attributes:
        slices: their slices of a timeline.
        of_thread: rows are about their threads; otherwise about all threads of their processes, such as a connection.
        by_thread: in which rows of threads the thread was from begin to end; None: in all of them.
    """

    slices: Slices
    of_thread: bool
    by_thread: Condition | None

    @property
    def columns(self) -> tuple[str, ...]:
        """What is read of rows to know when they last."""
        chosen = sorted(columns_read(self.by_thread)) if self.by_thread is not None else []
        return ("time", "ktime_ns", "process", self.slices.lasting, *(["tid", *chosen] if self.of_thread else []))


def lasting(table: StreamTable) -> Lasting | None:
    """How the rows of a stream last; None: they are moments, sums, or of no process."""
    whole = {one.name for one in table.columns if one.kind in (Kind.PLAIN, Kind.UNSIGNED) and one.sql in WHOLE}
    if not table.of_processes:
        return None
    for slices in table.described.shown.timeline.slices:
        if slices.lasting in whole:
            of_thread = slices.by_thread is not None and "tid" in whole
            by_thread = read_filter(slices.by_thread, table.types) if of_thread and slices.by_thread else None
            return Lasting(slices, of_thread, by_thread)
    return None


def lasting_or_refused(table: StreamTable, parameter: str) -> Lasting:
    """How the rows of a stream last.

    Raises:
        InvalidQuery: they do not.
    """
    if (how := lasting(table)) is None:
        detail = f"rows of {table.name} do not last: they are moments or sums, or of no process"
        raise InvalidQuery(detail, parameter=parameter)
    return how
