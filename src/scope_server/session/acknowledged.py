"""Checks what an agent says was acknowledged."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from scope_proto.scope.v1 import session_pb2
from scope_server.errors import InvalidMessage
from scope_server.store.writing.sequences import Sequences
from scope_wire.limits import MOST_COUNT, NAME_LENGTH

_MOST_SEQUENCE = 1 << 62
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Acknowledged:
    """What a server has acknowledged of one stream of a run.

    Attributes:
        sequences: as an int8multirange.
        events: number of events in them.
        until: time of the last of these events, by the machine's clock; now if that is implausible.
    """

    run_id: str
    stream: str
    sequences: str
    events: int
    until: datetime


def acknowledged(message: session_pb2.Acknowledged) -> Acknowledged:
    """The content of a message.

    Raises:
        InvalidMessage: it is not valid; the error's message names the field.
    """
    if len(message.run_id) != 16:
        raise InvalidMessage("report.acknowledged: a run_id has 16 bytes")
    if not message.stream or len(message.stream) > NAME_LENGTH or "\0" in message.stream:
        raise InvalidMessage(f"report.acknowledged: a stream's name has 1 to {NAME_LENGTH} characters")
    sequences = Sequences()
    for span in message.spans:
        if not 0 < span.first <= span.last <= _MOST_SEQUENCE:
            raise InvalidMessage(f"report.acknowledged: {span.first} to {span.last} are no sequence numbers")
        sequences.add(span.first, span.last)
    events = min(sum(span.events for span in message.spans), MOST_COUNT)
    until = _time(message.last_ktime_ns + message.boot_to_utc_ns)
    return Acknowledged(str(UUID(bytes=message.run_id)), message.stream, str(sequences), events, until)


def _time(utc_ns: int) -> datetime:
    now = datetime.now(UTC)
    try:
        found = _EPOCH + timedelta(microseconds=utc_ns // 1000)
    except OverflowError:
        return now
    return found if _EPOCH < found < now else now
