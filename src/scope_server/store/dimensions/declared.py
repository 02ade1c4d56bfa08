"""All dimensions. Writers and sweeps go through them in this order."""

from scope_catalogue.stream import TypedColumn
from scope_server.store.dimensions.dimension import Dimension, Parts

Process = tuple[int, int, int]  # machine (key), pid, start_ns

NAMES = Dimension("names", kind="name")
FRAMES = Dimension("frames")
STACKS = Dimension(
    "stacks",
    kind="stack",
    content="frames",
    takes=lambda column: column.stack,
    parts=Parts(FRAMES, lambda stack: stack.split(";")),
    text_of="store.stack_text",
)
# Rows without a process refer to an entry with pid 0. What agents tell of a process is in further columns.
PROCESSES = Dimension(
    "processes",
    kind="process",
    identity={"machine": "bigint", "pid": "bigint", "start_ns": "bigint"},
    digest=lambda process: process,
    content="",
    held="processes",
)

_OF_ROWS = (NAMES, STACKS, PROCESSES)


def of_rows() -> tuple[Dimension, ...]:
    """The dimensions that rows refer to."""
    return _OF_ROWS


def of_parts() -> tuple[Dimension, ...]:
    """The dimensions that entries of those refer to."""
    return tuple(one.parts.of for one in of_rows() if one.parts)


def of_column(column: TypedColumn) -> Dimension:
    """The dimension of a column of texts."""
    return next((one for one in of_rows() if one.takes(column)), NAMES)


def of_kind(kind: str) -> Dimension | None:
    """The dimension that columns of this kind refer to; None: they have no keys."""
    return next((one for one in of_rows() if one.kind == kind), None)
