"""The `locks` probe: waits of known number for locks of known holders."""

import errno
from collections import Counter
from collections.abc import Callable

import pytest
from tests.probes.recording import ONE_INTERVAL_MS, Record

ROUNDS = 13


def printed(capfd: pytest.CaptureFixture[str]) -> dict[str, int]:
    """What the program says about itself."""
    return {name: int(number) for name, number in (line.split() for line in capfd.readouterr().out.splitlines())}


def test_locks_and_their_holders(
    record: Record, workload: Callable[[str], str], capfd: pytest.CaptureFixture[str]
) -> None:
    """Each wait for a held lock is one row, with the holder that the lock names and the thread that gave it up; it is
    no longer than the program says. A wait that times out, or whose value has changed, says so."""
    recording = record("locks", [workload("locks")])
    said, rows = printed(capfd), recording.rows("lock_wait")
    by_lock = {name: [row for row in rows if row["address"] == said[name]] for name in ("mutex", "inherits", "word")}
    for name in ("mutex", "inherits"):
        held = by_lock[name]
        assert len(held) == ROUNDS
        assert Counter(
            (row["kind"], row["comm"], row["owner_tid"], row["waker_tid"], row["waker_pid"], row["waker_comm"])
            for row in held
            if row["ret"] == 0
        ) == {("lock", "wai\x1b[31mter", recording.pid, recording.pid, recording.pid, "locks"): ROUNDS}
        stacks = [row["stack"] for row in held]
        whole = [stack for stack in stacks if "start_thread;" in stack]  # once the code can be unwound
        assert [stack for stack in whole if ";waiter;contend;" not in stack] == []
    assert ROUNDS * 2_000_000 <= sum(row["duration_ns"] for row in by_lock["mutex"]) <= said["waited"]
    word = by_lock["word"]
    assert Counter((row["ret"], row["has_timeout"]) for row in word) == {
        (-errno.ETIMEDOUT, 1): 17,
        (-errno.EAGAIN, 0): 101,
    }
    assert not [row for row in word if row["waker_tid"] or row["owner_tid"] or row["kind"] != "other"]
    assert min(row["duration_ns"] for row in word if row["has_timeout"]) >= 1_000_000
    account = recording.accounts["lock_wait"]
    assert (account.emitted, account.lost, account.incomplete) == (len(rows), {}, 0)


def test_waits_for_one_of_several(
    record: Record, workload: Callable[[str], str], capfd: pytest.CaptureFixture[str]
) -> None:
    """A wait for several words is one row: of the word that ended it, with its place and its waker, or of the first."""
    recording = record("locks", [workload("locks")], stacks=False)
    said, rows = printed(capfd), recording.rows("lock_wait")
    places = {said["first"]: "first", said["second"]: "second"}
    assert Counter(
        (places[row["address"]], row["ret"], row["has_timeout"], row["kind"], row["waker_pid"], row["owner_tid"])
        for row in rows
        if row["address"] in places
    ) == {
        ("first", -errno.ETIMEDOUT, 1, "other", None, None): 5,
        ("first", -errno.EAGAIN, 0, "other", None, None): 7,
        ("second", 1, 0, "other", recording.pid, None): 3,
    }


def test_waits_by_the_newer_call(
    record: Record, workload: Callable[[str], str], capfd: pytest.CaptureFixture[str]
) -> None:
    """A wait by futex_wait(2) is told like one by futex(2): with the lock's holder, its waker, and why it ended."""
    recording = record("locks", [workload("locks")], stacks=False)
    said, rows = printed(capfd), recording.rows("lock_wait")
    if not said["newer"]:
        pytest.skip("the kernel has no futex_wait (since 6.7)")
    owner = recording.pid
    assert Counter(
        (row["ret"], row["has_timeout"], row["kind"], row["owner_tid"], row["waker_pid"])
        for row in rows
        if row["address"] == said["held"]
    ) == {
        (-errno.EAGAIN, 0, "other", None, None): 7,
        (-errno.ETIMEDOUT, 1, "lock", owner, None): 5,
        (0, 0, "lock", owner, recording.pid): 3,
    }


def test_only_long_waits(record: Record, workload: Callable[[str], str], capfd: pytest.CaptureFixture[str]) -> None:
    """With a bound, shorter waits have no rows: of the word, those that time out are left."""
    recording = record("locks", [workload("locks")], min_duration_ns=1_000_000, stacks=False)
    said, rows = printed(capfd), recording.rows("lock_wait")
    assert min(row["duration_ns"] for row in rows) >= 1_000_000
    found = Counter(row["ret"] for row in rows if row["address"] == said["word"])
    assert found[-errno.ETIMEDOUT] == 17
    assert {row["stack"] for row in rows} == {None}


def test_the_summary_adds_up(record: Record, workload: Callable[[str], str], capfd: pytest.CaptureFixture[str]) -> None:
    """By lock: counts, failures, sums, and histograms that have each wait."""
    recording = record("locks", [workload("locks")], mode="summary", interval_ms=ONE_INTERVAL_MS, stacks=False)
    said = printed(capfd)
    names = {said[name]: name for name in ("mutex", "inherits", "word")}
    found = {
        names[row["address"]]: (row["kind"], row["count"], row["failed"], sum(row["wait"]))
        for row in recording.rows("lock_wait_summary")
        if row["address"] in names
    }
    assert found == {
        "mutex": ("lock", ROUNDS, 0, ROUNDS),
        "inherits": ("lock", ROUNDS, 0, ROUNDS),
        "word": ("other", 118, 118, 118),
    }
