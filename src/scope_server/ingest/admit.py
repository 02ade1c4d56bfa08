"""Converts a record to a delivery, and checks its ids, its event counts and its content."""

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from google.protobuf.unknown_fields import UnknownFieldSet

from scope_proto.scope.v1.record_pb2 import Record
from scope_server.errors import Deferred, Rejected
from scope_server.ingest import facts
from scope_server.ingest.decode import decode, table_of
from scope_server.ingest.envelope import declared_bytes
from scope_server.ingest.times import Clock
from scope_server.machine import Machine
from scope_server.store.schema.columns import StreamTable
from scope_server.store.writing.delivery import Batch, Delivery

DECOMPRESSED_LIMIT = 64 << 20  # bytes; sixty times the largest record
_MOST_SEQUENCE = 1 << 62
_UUID = 16  # bytes
_STREAM = re.compile(r"[a-z][a-z0-9_]{0,62}")
_log = logging.getLogger(__name__)


def identify(record: Record) -> None:
    """Checks everything that is needed to count the record.

    Raises:
        Rejected: the record cannot even be counted as refused.
        Deferred: only a newer server knows this kind of record.
    """
    kind = record.WhichOneof("content")
    if len(record.run_id) != _UUID or len(record.task_id) != _UUID:
        raise Rejected("unidentified", "run_id and task_id are UUIDs of 16 bytes")
    if kind is None and len(UnknownFieldSet(record)):
        raise Deferred("this server does not know this kind of record: it is older than the agent")
    if kind is None:
        raise Rejected("unidentified", "the record is empty")
    if kind == "batch" and not 0 < record.batch.sequence <= _MOST_SEQUENCE:
        raise Rejected("unidentified", f"sequence {record.batch.sequence} is not from 1 to 2**62")
    if kind in ("batch", "gap") and not _STREAM.fullmatch(getattr(record, kind).stream):
        raise Rejected("unidentified", "a stream's name has 1 to 63 characters: a-z, 0-9, _")


def weigh(record: Record) -> int:
    """Decompressed size of a record's columns in bytes, as declared in the record; does not read the content.

    Raises:
        Rejected: the columns are not valid, or too large.
    """
    if not record.HasField("batch") or not record.batch.arrow_ipc:
        return 0
    declared = declared_bytes(record.batch.arrow_ipc)
    if declared > DECOMPRESSED_LIMIT:
        raise Rejected("too_large", f"{declared} bytes when decompressed; at most {DECOMPRESSED_LIMIT} are allowed")
    return declared


class Admission:
    """Makes deliveries of records that passed `identify`. For any thread.

    Args:
        tables: the known streams by name.
        keep_days: older rows are refused.
    """

    def __init__(self, tables: Mapping[str, StreamTable], keep_days: int) -> None:
        self._tables, self._keep_days = tables, keep_days

    def __call__(self, record: Record, machine: Machine, rejected: Rejected | None = None) -> Delivery:
        """The delivery of a record. An invalid record becomes a rejected delivery, never an error.

        Args:
            rejected: why the columns must not be read.
        """
        clock = Clock.now(self._keep_days)
        delivery = Delivery(machine, str(UUID(bytes=record.run_id)), str(UUID(bytes=record.task_id)), record)
        try:
            if record.HasField("batch"):
                return self._batch(delivery, clock, rejected)
            return _other(delivery, clock)
        except Exception as error:
            return replace(delivery, rejected=_judged(error))

    def _batch(self, delivery: Delivery, clock: Clock, rejected: Rejected | None) -> Delivery:
        told, machine = delivery.record.batch, delivery.machine
        known = self._tables.get(told.stream)
        first_ns = clock.moment(told.first_ktime_ns, told.boot_to_utc_ns, machine)
        last_ns = clock.moment(told.last_ktime_ns, told.boot_to_utc_ns, machine)
        batch = Batch(told.stream, known.probe if known else "", told.sequence, told.event_count, first_ns, last_ns)
        delivery = replace(delivery, content=batch, rejected=rejected)
        if rejected:
            return delivery
        try:
            if told.HasField("account"):
                delivery = replace(delivery, accounts=(facts.account(told.stream, told.account, last_ns),))
            described = facts.processes(told)
            rows = decode(told, table_of(told, self._tables), machine, clock)
        except Exception as error:  # its sequence number is known, so the loss can be counted
            return replace(delivery, rejected=_judged(error))
        return replace(delivery, content=replace(batch, rows=rows, processes=described, as_of_ns=told.last_ktime_ns))


def _other(delivery: Delivery, clock: Clock) -> Delivery:
    record, machine = delivery.record, delivery.machine
    if record.HasField("gap"):
        return replace(delivery, content=facts.gap(record.gap, machine, clock))
    if record.HasField("start"):
        return replace(delivery, content=facts.start(record.start, clock))
    if record.HasField("end"):
        told = facts.accounts(record.end.accounts, machine, clock)
        ended = facts.end(record.end, clock)
        last_sequences = {account.stream: 0 for account in told} | dict(ended.last_sequences)
        return replace(delivery, content=replace(ended, last_sequences=last_sequences), accounts=told)
    return replace(delivery, accounts=facts.accounts(record.accounts, machine, clock))


def _judged(error: Exception) -> Rejected:
    if isinstance(error, Rejected):
        return error
    # Invalid bytes may cause any error in a library, but concern only this record.
    _log.error("a record could not be decoded", exc_info=error)
    return Rejected("corrupt", f"not valid: {error}")
