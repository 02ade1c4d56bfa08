"""Messages of the local bus: rows of one stream of one task.

A message has three frames, which arrive together or not at all:

    topic    STREAM/TASK_ID, for subscriptions by prefix
    schema   msgpack: a list with [name, type, unit] for each column
    batch    msgpack: a map with the attributes of `Message`

The schema comes first in each message, not once per stream: so a reader that joins late or loses messages can read the
next one. Its bytes are made once per stream, and are about a hundredth of a full batch.

Events of a stream are numbered within a run. `events_before` is the number of the message's first event. A reader that
expected another number has lost the difference. A message without rows only tells this number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import msgpack

from scope_wire.errors import DamagedMessage

VERSION = 1

Schema = Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Message:
    """The batch of a message.

    Attributes:
        run: id of the run; a task that starts again, or an agent, makes a new run.
        began_ns: when the run began to record, CLOCK_BOOTTIME.
        sequence: number of the batch, as the server has it; the rows of a large batch come in several messages.
        events_before: number of the stream's events in this run before this message, whether or not they were sent.
        events: number of rows.
        emitted: events that the kernel emitted up to this batch.
        lost: those of them that were lost before they had a number, by place and reason: {"ring/ring_full": 7}.
        left_out: those of them that the task's filter did not take: they have no number.
        ended: whether the run has ended; then emitted = events_before + all of `lost` + left_out.
        boot_to_utc_ns: added to a `ktime_ns`, it gives nanoseconds since 1970 UTC.
        columns: by name, see `scope_wire.bus.columns`; empty if there are no rows.
    """

    stream: str
    task: str
    run: str
    began_ns: int
    sequence: int
    events_before: int
    emitted: int
    lost: Mapping[str, int]
    boot_to_utc_ns: int
    left_out: int = 0
    events: int = 0
    ended: bool = False
    columns: Mapping[str, Any] = field(default_factory=dict)
    version: int = VERSION

    @property
    def topic(self) -> bytes:
        """The first frame."""
        return topic_of(self.stream, self.task)

    def frame(self) -> bytes:
        """The last frame."""
        return bytes(msgpack.packb(vars(self)))

    @classmethod
    def of(cls, frame: bytes) -> Self:
        """The message with this last frame.

        Raises:
            DamagedMessage: it is not such a frame, or has another version.
        """
        try:
            said = msgpack.unpackb(frame)
            if said["version"] == VERSION:
                return cls(**{one.name: said[one.name] for one in fields(cls) if one.name in said})
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedMessage(f"a message of the local bus cannot be read: {error!r}") from None
        raise DamagedMessage(f"the agent's local bus has version {said['version']}, not {VERSION}; use its `scope`")


def topic_of(stream: str, task: str) -> bytes:
    """The topic of a stream of a task; with the first characters of a task's id, a prefix of it."""
    return f"{stream}/{task}".encode()


def packed_schema(schema: Schema) -> bytes:
    """The second frame."""
    return bytes(msgpack.packb(schema))


def unpacked_schema(frame: bytes) -> Schema:
    """The columns in the second frame.

    Raises:
        DamagedMessage: it is not such a frame.
    """
    try:
        return [(str(name), str(kind), str(unit)) for name, kind, unit in msgpack.unpackb(frame)]
    except (ValueError, TypeError) as error:
        raise DamagedMessage(f"a schema of the local bus cannot be read: {error!r}") from None
