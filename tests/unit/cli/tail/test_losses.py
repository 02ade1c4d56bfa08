"""What a reader of the local bus has lost, by the numbers in the messages."""

from dataclasses import replace

from scope_cli.tail.losses import Losses
from scope_wire.bus.message import Message

JOINED_NS = 100


def message(before: int, events: int = 0, **changes: object) -> Message:
    """Of a run that began after the reader joined, unless `changes` say otherwise."""
    of_run = Message(
        stream="exec",
        task="t",
        run="r",
        began_ns=JOINED_NS + 1,
        sequence=1,
        events_before=before,
        events=events,
        emitted=before + events,
        lost={},
        boot_to_utc_ns=0,
    )
    return replace(of_run, **changes)  # type: ignore[arg-type]


def lost(*messages: Message) -> dict[str, dict[str, int]]:
    losses = Losses(JOINED_NS)
    for one in messages:
        losses.note(one)
    return {stream: dict(account.lost) for stream, account in losses.accounts().items()}


def test_consecutive_messages_lose_nothing() -> None:
    assert lost(message(0, 10), message(10, 5), message(15)) == {"exec": {}}


def test_a_gap_is_the_difference_of_the_numbers() -> None:
    assert lost(message(0, 10), message(17, 5), message(30)) == {"exec": {"slow_reader": 7 + 8}}


def test_the_begin_of_a_run_counts_if_the_reader_was_there_before() -> None:
    assert lost(message(40, 2)) == {"exec": {"slow_reader": 40}}


def test_a_late_reader_has_lost_nothing_of_what_was_before() -> None:
    """Neither earlier events, nor what the kernel had lost by then."""
    late = {"began_ns": JOINED_NS - 1}
    first = message(40, 2, lost={"ring/ring_full": 9}, **late)
    assert lost(first) == {"exec": {}}
    assert lost(first, message(43, lost={"ring/ring_full": 11}, **late)) == {"exec": {"slow_reader": 1, "ring_full": 2}}


def test_each_run_and_stream_has_its_numbers() -> None:
    """A task that starts again begins at 0; the counts of a stream add up."""
    of_runs = [message(0, 10), message(3, 1, run="s"), message(0, 4, stream="fork"), message(12, 1)]
    assert lost(*of_runs) == {"exec": {"slow_reader": 3 + 2}, "fork": {}}
