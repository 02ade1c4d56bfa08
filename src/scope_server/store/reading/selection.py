"""Which rows of a stream a question is about."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scope_catalogue.condition import Condition
from scope_server.store.schema.columns import StreamTable


@dataclass(frozen=True)
class Selection:
    """Rows of a stream.

    Attributes:
        where: from `read_filter`, for the table's columns; None: all rows.
        until: not in it.
        machines: keys; None: of all.
        task: key of the task that recorded them; None: of all.
    """

    table: StreamTable
    where: Condition | None = None
    since: datetime | None = None
    until: datetime | None = None
    machines: Sequence[int] | None = None
    task: int | None = None
