"""What an agent tells of its programs' annotations."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

from scope_proto.scope.v1.session_pb2 import AnnotateRequest
from scope_server.errors import InvalidMessage
from scope_server.limits import Rate
from scope_server.store.annotations import Annotation

MOST = 1000
RATE = Rate(per_minute=6000, burst=120_000)  # of a machine: what an agent takes, and all that one keeps
_LONGEST_TEXT, _MOST_LABELS, _LONGEST_LABEL, _LONGEST_NAME = 500, 16, 63, 64
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_AGO_NS = 10 * 366 * 86400 * 10**9


def annotations_of(request: AnnotateRequest, machine: int) -> Iterator[Annotation]:
    """The annotations in a message, at times of the server's clock. Texts that are too long are cut: an agent that is
    refused would send them for ever.

    Raises:
        InvalidMessage: there are too many, or an id or a time is none.
    """
    if len(request.annotations) > MOST:
        raise InvalidMessage(f"annotations: more than {MOST} in a message")
    now_ns = time.time_ns()
    for one in request.annotations:
        if len(one.id) != 16:
            raise InvalidMessage("annotations.id: a UUID has 16 bytes")
        ago_ns = request.utc_ns - one.utc_ns
        if abs(ago_ns) > _LONGEST_AGO_NS:
            raise InvalidMessage("annotations.utc_ns: more than ten years from the time of sending")
        labels = list(one.labels.items())[:_MOST_LABELS]
        yield Annotation(
            str(UUID(bytes=one.id)),
            _EPOCH + timedelta(microseconds=(now_ns - ago_ns) // 1000),
            _cut(one.text, _LONGEST_TEXT),
            labels={_cut(name, _LONGEST_LABEL): _cut(value, _LONGEST_LABEL) for name, value in labels},
            machine=machine,
            pid=one.pid if 0 < one.pid < 1 << 31 else None,
            comm=_cut(one.comm, _LONGEST_NAME) or None,
        )


def _cut(text: str, longest: int) -> str:
    return text.replace("\0", "")[:longest]
