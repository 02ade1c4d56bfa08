"""Checks and converts the parts of records other than rows: accounts, processes, gaps, starts and ends of runs.

Raises Rejected("hostile") for values that no real agent sends.
"""

import re

from google.protobuf.timestamp_pb2 import Timestamp

from scope_proto.scope.v1 import record_pb2, task_pb2
from scope_server.errors import InvalidMessage, Rejected
from scope_server.ingest.times import Clock
from scope_server.machine import Machine
from scope_server.session.reported import definition_json
from scope_server.store.writing.delivery import INGEST, SPOOL, Account, End, Gap, Loss, ProcessFacts, Span, Start
from scope_wire.limits import MOST_COUNT, PERSON_LENGTH

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")  # of a stream, place or reason
_MOST_SEQUENCE = 1 << 62
_MOST_STREAMS = 256
_MOST_REASONS = 256
_MOST_SPANS = 20_000
_MOST_PROCESSES = 20_000
_TEXT = 4_000  # maximum characters kept of texts for people
_BIGINT = (1 << 63) - 1

_ENDS = {
    task_pb2.TASK_END_REQUEST: ("stopped", "request"),
    task_pb2.TASK_END_LEASE: ("stopped", "lease"),
    task_pb2.TASK_END_FAILURE: ("failed", "failure"),
    task_pb2.TASK_END_SHUTDOWN: ("stopped", "shutdown"),
    task_pb2.TASK_END_KILLED: ("failed", "killed"),
}


def account(stream: str, told: record_pb2.Account, time_ns: int) -> Account:
    """A stream's event counts at a time (nanoseconds since 1970)."""
    if len(told.lost) > _MOST_REASONS:
        raise Rejected("hostile", f"{len(told.lost)} reasons of losses; at most {_MOST_REASONS} are allowed")
    lost = []
    for loss in told.lost:
        if loss.place in (INGEST, SPOOL):
            raise Rejected("hostile", f"place '{loss.place}' is not allowed in an account")
        lost.append(Loss(_name(loss.place, "place"), _name(loss.reason, "reason"), _count(loss.count)))
    return Account(
        _name(stream, "stream"),
        emitted=_count(told.emitted),
        incomplete=_count(told.incomplete),
        left_out=_count(told.left_out),
        lost=tuple(lost),
        time_ns=time_ns,
    )


def accounts(told: record_pb2.Accounts, machine: Machine, clock: Clock) -> tuple[Account, ...]:
    """The event counts of a run's streams."""
    if len(told.streams) > _MOST_STREAMS:
        raise Rejected("hostile", f"accounts of {len(told.streams)} streams; at most {_MOST_STREAMS} are allowed")
    time_ns = clock.moment(told.ktime_ns, told.boot_to_utc_ns, machine)
    return tuple(account(stream, one, time_ns) for stream, one in told.streams.items())


def processes(batch: record_pb2.Batch) -> tuple[ProcessFacts, ...]:
    """Descriptions of processes."""
    if len(batch.processes) > _MOST_PROCESSES:
        raise Rejected("hostile", f"{len(batch.processes)} processes; at most {_MOST_PROCESSES} are allowed")
    return tuple(map(_process, batch.processes))


def gap(told: record_pb2.Gap, machine: Machine, clock: Clock) -> Gap:
    """Lost sequence numbers."""
    if told.place != SPOOL:
        raise Rejected("hostile", f"place {told.place[:40]!r}: the place of a gap must be '{SPOOL}'")
    if len(told.spans) > _MOST_SPANS:
        raise Rejected("hostile", f"{len(told.spans)} spans; at most {_MOST_SPANS} are allowed")
    for span in told.spans:
        if not 0 < span.first <= span.last <= _MOST_SEQUENCE:
            raise Rejected("hostile", f"sequences {span.first} to {span.last} are not valid")
    return Gap(
        stream=told.stream,
        reason=_name(told.reason, "reason"),
        spans=tuple(Span(span.first, span.last, _count(span.events)) for span in told.spans),
        first_ns=clock.moment(told.first_ktime_ns, told.boot_to_utc_ns, machine),
        last_ns=clock.moment(told.last_ktime_ns, told.boot_to_utc_ns, machine),
    )


def start(told: record_pb2.RunStart, clock: Clock) -> Start:
    """The start of a run."""
    try:
        definition = definition_json(told.definition)
    except InvalidMessage as error:
        raise Rejected("hostile", str(error)) from None
    return Start(
        probe=_name(told.definition.probe, "probe"),
        definition=definition,
        origin="server" if told.origin == task_pb2.ORIGIN_SERVER else "agent",
        started_ns=clock.told(_ns(told.started)),
        attach_point=_legible(told.attach_point),
        started_by=_legible(told.started_by)[:PERSON_LENGTH] or None,
    )


def end(told: record_pb2.RunEnd, clock: Clock) -> End:
    """The end of a run."""
    if len(told.last_sequences) > _MOST_STREAMS:
        raise Rejected("hostile", f"{len(told.last_sequences)} streams; at most {_MOST_STREAMS} are allowed")
    last_sequences = {_name(stream, "stream"): last for stream, last in told.last_sequences.items()}
    if any(last > _MOST_SEQUENCE for last in last_sequences.values()):
        raise Rejected("hostile", "a last sequence above 2**62")
    state, why = _ENDS.get(told.end, ("stopped", None))
    stopped_by = _legible(told.stopped_by)[:PERSON_LENGTH] or None
    return End(state, why, _legible(told.error), clock.told(_ns(told.ended)), last_sequences, stopped_by)


def _process(told: record_pb2.Process) -> ProcessFacts:
    if told.start_ns > _BIGINT:
        raise Rejected("hostile", f"process {told.pid} starts after 2**63 ns")
    return ProcessFacts(
        pid=told.pid,
        start_ns=told.start_ns,
        parent_pid=told.parent_pid or None,
        exe=_known(told.exe),
        cmdline=tuple(word.replace("\0", "") for word in told.cmdline) or None,
        cgroup=_known(told.cgroup),
        container_id=_known(told.container_id),
        container=_known(told.container_name),
        image=_known(told.image),
        pod=_known(told.pod),
        namespace=_known(told.namespace),
        unit=_known(told.unit),
    )


def _known(text: str) -> str | None:
    return text.replace("\0", "") or None


def _legible(text: str) -> str:
    return text.replace("\0", "")[:_TEXT]


def _name(text: str, what: str) -> str:
    if not _NAME.fullmatch(text):
        raise Rejected("hostile", f"{what} {text[:40]!r}: it has 1 to 63 characters: a-z, 0-9, _")
    return text


def _count(number: int) -> int:
    if number > MOST_COUNT:
        raise Rejected("hostile", f"{number} events: the number is too large")
    return number


def _ns(stamp: Timestamp) -> int:
    return stamp.seconds * 10**9 + stamp.nanos
