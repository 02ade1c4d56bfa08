"""Actions that fail temporarily are retried. Permanent failures are raised or counted."""

import errno
import time

import pytest

from scope_bpf.capture.retries import Retries


def nothing() -> None:
    """Makes no room: nothing can be closed."""


class Busy:
    """An action that fails `times` times."""

    def __init__(self, times: int, number: int = errno.EBUSY) -> None:
        self.left, self.number, self.done = times, number, 0

    def __call__(self) -> None:
        if self.left:
            self.left -= 1
            raise OSError(self.number, "busy")
        self.done += 1


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EBUSY, errno.ENOMEM, errno.EMFILE, errno.ENFILE])
def test_it_is_done_in_the_end(number: int) -> None:
    """A temporary failure is retried, in `attempt` or later in `run`. Only a lack of descriptors calls `make_room`."""
    room: list[str] = []
    waiting, later = (Retries(lambda: room.append("made")) for _ in range(2))
    later.waits = False
    actions = [Busy(3, number), Busy(3, number)]
    waiting.attempt("one", actions[0])
    later.attempt("other", actions[1])
    assert [action.done for action in actions] == [1, 0]
    deadline = time.monotonic() + 60
    while not actions[1].done:
        assert time.monotonic() < deadline
        time.sleep(later.due_s())
        later.run()
    assert (waiting.repeated, later.repeated) == (3, 3)
    assert later.given_up == 0
    assert len(room) == (6 if number in {errno.EMFILE, errno.ENFILE} else 0)
    assert later.due_s() == float("inf")


def test_other_reasons_are_raised() -> None:
    """A permanent error is raised at once."""
    retries = Retries(nothing)
    retries.waits = False
    with pytest.raises(OSError, match="busy"):
        retries.attempt("it", Busy(1, errno.EINVAL))
    assert retries.due_s() == float("inf")


def test_what_never_succeeds_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An action is given up after the maximum number of tries. With `waits`, its error is raised."""
    monkeypatch.setattr("scope_bpf.capture.retries._MOST_TRIES", 3)
    retries, action = Retries(nothing), Busy(100)
    with pytest.raises(OSError, match="busy"):
        retries.attempt("it", action)
    assert (action.left, retries.given_up) == (97, 1)
    retries.waits = False
    retries.attempt("it", action)
    deadline = time.monotonic() + 60
    while retries.given_up == 1:
        assert time.monotonic() < deadline
        retries.run()
    assert action.left == 94
