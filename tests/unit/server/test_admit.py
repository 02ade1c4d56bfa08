"""Records are identified, checked and dated, and become deliveries; hostile ones become rejections, never errors."""

import time
import uuid
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Value
from tests.integration.server.records import BOOT_TO_UTC_NS, SCHEMA, Run, account, rows

from scope_catalogue.catalogue import streams
from scope_proto.scope.v1 import task_pb2
from scope_proto.scope.v1.record_pb2 import Gap, Process, Record, RunEnd, RunStart, Span
from scope_server.errors import Deferred, Rejected
from scope_server.ingest.admit import DECOMPRESSED_LIMIT, Admission, identify, weigh
from scope_server.machine import Machine
from scope_server.store.schema.tables import Tables
from scope_server.store.writing.delivery import Batch, End, Start

MACHINE = Machine(7, "0" * 32, str(uuid.uuid4()), BOOT_TO_UTC_NS)
ADMIT = Admission(Tables(streams().values()), keep_days=30)


def _rejected(record: Record) -> str:
    delivery = ADMIT(record, MACHINE)
    assert delivery.rejected is not None
    return delivery.rejected.code


def test_a_batch_is_decoded_and_dated() -> None:
    """A batch's rows have the catalogue's columns and the machine's times; its account has the time of its last row."""
    run = Run()
    delivery = ADMIT(run.batch(3, rows(101), emitted=303, lost={("ring", "ring_full"): 2}), MACHINE)
    assert (delivery.run_id, delivery.task_id) == (str(run.run_id), str(run.task_id))
    batch = delivery.content
    assert isinstance(batch, Batch) and batch.rows
    assert (batch.stream, batch.probe, batch.sequence, batch.events) == ("syscall", "syscalls", 3, 101)
    assert batch.rows.rows.schema == SCHEMA
    assert batch.rows.rows.num_rows == 101
    assert (batch.rows.first_ns, batch.rows.last_ns) == (BOOT_TO_UTC_NS + 10**9, BOOT_TO_UTC_NS + 10**9 + 100_000)
    assert not batch.rows.redated
    (told,) = delivery.accounts
    assert (told.emitted, told.time_ns, [loss.count for loss in told.lost]) == (303, batch.rows.last_ns, [2])


def test_a_batch_without_rows_is_one() -> None:
    """A batch without rows is accepted as a batch: it settles its sequence."""
    delivery = ADMIT(Run().batch(1, rows(0), arrow_ipc=b""), MACHINE)
    assert isinstance(delivery.content, Batch)
    assert (delivery.rejected, delivery.content.rows) == (None, None)
    delivery = ADMIT(Run().batch(1, rows(0)), MACHINE)
    assert isinstance(delivery.content, Batch)
    assert (delivery.rejected, delivery.content.rows) == (None, None)


def test_a_kind_of_record_that_is_not_known_is_deferred() -> None:
    """A newer agent's kind of record (field 99) is deferred; an empty record is rejected."""
    run = Run()
    record = Record.FromString(run.record().SerializeToString() + bytes([0x9A, 0x06, 0x01, 0x78]))
    with pytest.raises(Deferred, match="older than the agent"):
        identify(record)
    with pytest.raises(Rejected, match="empty"):
        identify(run.record())


@pytest.mark.parametrize(
    "changed", [{"run_id": b""}, {"run_id": b"x" * 17}, {"task_id": b"x" * 15}, {"task_id": b"x" * 36}]
)
def test_ids_have_16_bytes(changed: dict[str, Any]) -> None:
    """Run and task ids of another length are rejected, in every kind of record."""
    for record in (Run().batch(1, rows(1)), Run().gap((1, 1, 1)), Run().start(), Run().end({}), Run().accounts()):
        identify(record)
        for name, value in changed.items():
            setattr(record, name, value)
        with pytest.raises(Rejected) as rejected:
            identify(record)
        assert rejected.value.code == "unidentified"


def test_a_record_is_weighed_by_what_it_declares() -> None:
    """The weight is the declared size of the columns; a record without columns weighs 0."""
    assert weigh(Run().gap((1, 1, 1))) == 0
    few, many = weigh(Run().batch(1, rows(100))), weigh(Run().batch(1, rows(10_000)))
    assert 10 * 1_000 < few < many < DECOMPRESSED_LIMIT
    assert 50 * few < many


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (Run().accounts(syscall=account(1 << 53)), "hostile"),
        (Run().accounts(syscall=account(1, {("ring", f"r{n}"): 1 for n in range(300)})), "hostile"),
        (Run().accounts(**dict[str, Any]({f"s{n}": account(1) for n in range(300)})), "hostile"),
        (Run().gap((0, 1, 1)), "hostile"),
        (Run().gap((2, 1, 1)), "hostile"),
        (Run().gap((1, 1 << 63, 1)), "hostile"),
        (Run().gap(*[(n, n, 1) for n in range(1, 30_000)]), "hostile"),
        (Run().gap((1, 1, 1), reason="no word"), "hostile"),
        (
            Run().record(gap=Gap(stream="syscall", place="ring", reason="full", spans=[Span(first=1, last=1)])),
            "hostile",
        ),
        (Run().end({f"s{n}": 1 for n in range(300)}), "hostile"),
        (Run().end({"NO": 1}), "hostile"),
        (Run().batch(1, rows(3), event_count=1 << 21), "too_large"),
        (Run().record(start=RunStart(definition=task_pb2.Definition(probe="a\0b"))), "hostile"),
        (Run().record(start=RunStart(definition=task_pb2.Definition(probe=""))), "hostile"),
    ],
)
def test_what_no_agent_says_is_refused(record: Record, code: str) -> None:
    """Records with counts, names or numbers beyond the limits are refused."""
    identify(record)
    assert _rejected(record) == code


def test_a_definition_that_json_cannot_keep_is_refused() -> None:
    """A definition with NaN, a text with NUL or a very large text is refused."""
    for value in (Value(number_value=float("nan")), Value(string_value="a\0b"), Value(string_value="x" * 100_000)):
        start = Run().start()
        start.start.definition.options.fields["names"].CopyFrom(value)
        assert _rejected(start) == "hostile"


def test_a_bad_account_does_not_hide_the_batch() -> None:
    """A batch with a bad account is refused, but its sequence and number of events are kept for the books."""
    delivery = ADMIT(Run().batch(4, rows(11), emitted=1 << 60), MACHINE)
    assert delivery.rejected and delivery.rejected.code == "hostile"
    assert isinstance(delivery.content, Batch)
    assert (delivery.content.sequence, delivery.content.events, delivery.accounts) == (4, 11, ())


def test_processes_are_bounded_and_cleaned() -> None:
    """Absent facts are None, NULs are removed, and a batch with too many processes is refused."""
    record = Run().batch(1, rows(1))
    record.batch.processes.append(Process(pid=1, start_ns=2, exe="/bin/\0sh", cmdline=["a", "", "b\0"]))
    batch = ADMIT(record, MACHINE).content
    assert isinstance(batch, Batch)
    (facts,) = batch.processes
    assert (facts.exe, facts.cmdline, facts.parent_pid, facts.cgroup) == ("/bin/sh", ("a", "", "b"), None, None)
    record.batch.processes.extend([Process(pid=1)] * 20_000)
    assert _rejected(record) == "hostile"


def test_starts_and_ends_are_told() -> None:
    """Starts and ends are delivered; an unknown kind of end has no reason, and an end without a time is dated now."""
    run, now = Run(), time.time_ns()
    start = ADMIT(run.start(), MACHINE).content
    assert isinstance(start, Start)
    assert (start.probe, start.origin, start.started_ns) == ("syscalls", "server", BOOT_TO_UTC_NS)
    kinds: tuple[tuple[Any, tuple[str, str | None]], ...] = (
        (5, ("failed", "killed")),
        (1, ("stopped", "request")),
        (77, ("stopped", None)),
    )
    for end, expected in kinds:
        ended = ADMIT(run.record(end=RunEnd(end=end, error="a\0b", last_sequences={"syscall": 3})), MACHINE).content
        assert isinstance(ended, End)
        assert ((ended.state, ended.end), ended.error) == (expected, "ab")
        assert ended.last_sequences == {"syscall": 3}
        assert ended.ended_ns >= now


def test_a_stream_of_which_only_an_account_comes_had_no_sequences() -> None:
    """A stream that has only an account gets last sequence 0, so that its books can be closed."""
    ended = ADMIT(Run().end({"syscall": 3}, {"syscall": account(7), "syscall_summary": account(0)}), MACHINE).content
    assert isinstance(ended, End)
    assert ended.last_sequences == {"syscall": 3, "syscall_summary": 0}
