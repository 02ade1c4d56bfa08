"""What an agent remembers of the server's answers: spans of sequence numbers with their events, bounded."""

import random

from scope_agentd.pipeline.spool.spans import Span
from scope_agentd.session import acknowledged
from scope_agentd.session.acknowledged import Acknowledged, Answered, to_answer
from scope_proto.scope.v1.record_pb2 import Accounts, Batch, Gap, Record
from scope_proto.scope.v1.record_pb2 import Span as Told


def _answered(*spans: tuple[int, int, int], run: bytes = b"r", stream: str = "s", ktime_ns: int = 1) -> Answered:
    return Answered(run, stream, [Span(*span) for span in spans], ktime_ns, 0)


def _spans(kept: Acknowledged) -> list[tuple[int, int, int]]:
    (message,) = kept.messages()
    return [(span.first, span.last, span.events) for span in message.spans]


def test_answers_in_any_order_make_one_span() -> None:
    """Answers to adjacent sequence numbers are one span with the sum of their events, in whatever order they come."""
    kept, order = Acknowledged(), list(range(1, 50))
    random.Random(7).shuffle(order)
    for sequence in order:
        kept.add(_answered((sequence, sequence, sequence)))
    assert _spans(kept) == [(1, 49, 49 * 25)]


def test_an_answer_that_comes_twice_counts_once() -> None:
    """A sequence number that was answered before changes nothing."""
    kept = Acknowledged()
    for spans in ([(1, 1, 5)], [(3, 7, 50)], [(1, 1, 5), (4, 4, 10)], [(9, 9, 2)]):
        kept.add(_answered(*spans))
    assert _spans(kept) == [(1, 1, 5), (3, 7, 50), (9, 9, 2)]


def test_batches_and_gaps_are_answered() -> None:
    """Batches and gaps have sequence numbers; other records have none."""
    batch = Record(run_id=b"r", batch=Batch(stream="s", sequence=3, event_count=11, last_ktime_ns=5, boot_to_utc_ns=7))
    gap = Record(run_id=b"r", gap=Gap(stream="s", spans=[Told(first=4, last=9, events=60)], last_ktime_ns=6))
    found = [to_answer(record) for record in (batch, gap, Record(accounts=Accounts(ktime_ns=1)))]
    assert found == [Answered(b"r", "s", [Span(3, 3, 11)], 5, 7), Answered(b"r", "s", [Span(4, 9, 60)], 6, 0), None]


def test_what_is_kept_and_told_is_bounded() -> None:
    """Of too many runs, the oldest are forgotten. The newest are told first, and no stream with too many spans."""
    kept = Acknowledged()
    for run in range(acknowledged._MOST_RUNS + 3):
        kept.add(_answered((1, 1, 1), run=run.to_bytes(16)))
    told = [int.from_bytes(message.run_id) for message in kept.messages()]
    assert told == list(reversed(range(3, acknowledged._MOST_RUNS + 3)))
    kept = Acknowledged()
    for sequence in range(1, 2 * acknowledged._MOST_SPANS + 4, 2):
        kept.add(_answered((sequence, sequence, 1)))
    assert list(kept.messages()) == []
