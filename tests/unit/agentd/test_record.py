"""From a tracer to records: rows that cannot become a record are booked as lost; all others are recorded."""

import threading
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from scope_agentd.pipeline import batch
from scope_agentd.pipeline.batch import MOST_BYTES, Batcher
from scope_agentd.pipeline.books import Books
from scope_agentd.pipeline.columns import compressed
from scope_agentd.pipeline.describe import Describer
from scope_agentd.pipeline.record import Recorder
from scope_bpf.capture.account import Account
from scope_bpf.capture.batch import SampledBatch
from scope_bpf.capture.memberships import Memberships
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.stream import Stream
from scope_bpf.containers.containers import Containers
from scope_catalogue.stream import DescribedStream, Mode, TypedColumn
from scope_proto.scope.v1 import record_pb2
from scope_views.choice import Choice

THING = Stream("thing", "a thing", columns={})
DESCRIBED = DescribedStream(
    "thing", "things", Mode.SAMPLES, "a thing", (TypedColumn(meaning="what it says", name="text", type="string"),)
)


class TracerOf:
    """Replaces a tracer: returns one given batch of `thing` per poll, and the last one from finish()."""

    def __init__(self, stopping: threading.Event, *batches: SampledBatch) -> None:
        self._stopping, self._batches = stopping, list(batches)
        self._emitted = sum(one.count for one in batches)

    def poll(self, timeout_ms: int) -> list[SampledBatch]:
        given = self._batches.pop(0)
        if len(self._batches) == 1:
            self._stopping.set()
        return [given]

    def finish(self) -> list[SampledBatch]:
        return [self._batches.pop()]

    def accounts(self) -> dict[str, Account]:
        return {"thing": Account(self._emitted)}


def rows(*texts: str) -> SampledBatch:
    return SampledBatch(THING, pa.RecordBatch.from_pydict({"ktime_ns": range(len(texts)), "text": texts}))


def large() -> str:
    """A text that is too large for a record, even compressed."""
    return np.random.default_rng(1).bytes(MOST_BYTES).hex()


def recorded(*batches: SampledBatch, where: str = "") -> tuple[list[record_pb2.Batch], dict[str, int]]:
    """Records these batches; returns the batches put and the losses, and checks that the books balance."""
    books, stopping, put = Books(["thing"]), threading.Event(), list[record_pb2.Record]()
    tracer = cast(Tracer, TracerOf(stopping, *batches))
    batcher = Batcher(bytes(16), bytes(16), books, Describer(Memberships(Containers())), Choice(where, [DESCRIBED]))
    thread = threading.Thread(
        target=Recorder(tracer, batcher, books, put.append, lambda: None).record, args=(stopping,)
    )
    thread.start()
    thread.join(60)
    books.close()
    account = books.account("thing")
    told = [record.batch for record in put if record.HasField("batch")]
    assert [one.sequence for one in told] == list(range(1, len(told) + 1))
    lost = sum(loss.count for loss in account.lost)
    assert account.emitted == sum(one.event_count for one in told) + lost + account.left_out
    assert account.left_out == 0 or where
    return told, {f"{loss.place}/{loss.reason}": loss.count for loss in account.lost}


def texts(told: list[record_pb2.Batch]) -> list[str]:
    return [text for one in told for text in pa.ipc.open_stream(one.arrow_ipc).read_all()["text"].to_pylist()]


def test_a_row_too_large_for_a_record_is_lost_alone() -> None:
    """A row too large for a record is lost; the other rows of its batch and the next batches are recorded."""
    told, lost = recorded(rows("a", large(), "b"), rows("c", "d"), rows("e"))
    assert texts(told) == ["a", "b", "c", "d", "e"]
    assert [one.events_before for one in told] == [0, 1, 2, 4]
    assert lost == {"batch/too_large": 1}


def test_rows_that_cannot_be_read_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a batch fails halfway, its first rows stay recorded or too_large; only the rest is booked as unreadable."""

    def fails_later(columns: pa.RecordBatch, most_bytes: int) -> Iterator[Any]:
        pieces = compressed(columns, most_bytes)
        if columns["text"][0].as_py() == "a":
            yield next(pieces)
            yield next(pieces)
            raise pa.ArrowInvalid("made up")
        yield from pieces

    monkeypatch.setattr(batch, "compressed", fails_later)
    told, lost = recorded(rows("a", large(), "b", "c", "d", "e"), rows("f"), rows("g"))
    assert texts(told) == ["a", "f", "g"]
    assert lost == {"batch/too_large": 1, "batch/unreadable": 4}


def test_rows_that_the_filter_does_not_take_are_left_out() -> None:
    """Rows are numbered without those that the filter leaves out; a batch without any other makes no record."""
    told, lost = recorded(rows("a", "b", "a"), rows("b", "b"), rows("c", "a"), where="text != b")
    assert texts(told) == ["a", "a", "c", "a"]
    assert [(one.sequence, one.events_before, one.account.left_out) for one in told] == [(1, 0, 1), (2, 2, 3)]
    assert lost == {}


def test_rows_that_cannot_be_filtered_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a batch fails after its filter, only the rows that the filter took are lost; if the filter fails, all are."""

    def fails(columns: pa.RecordBatch, most_bytes: int) -> Iterator[Any]:
        if columns.num_rows == 2:
            raise pa.ArrowInvalid("made up")
        return compressed(columns, most_bytes)

    monkeypatch.setattr(batch, "compressed", fails)
    strange = SampledBatch(THING, pa.RecordBatch.from_pydict({"ktime_ns": range(3), "text": range(3)}))
    told, lost = recorded(rows("a", "b", "c"), strange, rows("a"), where="text != b")
    assert texts(told) == ["a"]
    assert lost == {"batch/unreadable": 2 + 3}
