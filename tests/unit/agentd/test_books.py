"""A run's books: at its end, emitted = lost + sequenced, whatever went wrong before."""

from scope_agentd.pipeline.books import Books
from scope_bpf.capture.account import Account


def test_what_was_not_read_is_lost_at_the_end() -> None:
    """At the end, events that are neither sequenced nor lost are booked as agent/unread, and no others."""
    books = Books(["syscall", "exec"])
    books.set_kernel({"syscall": Account(1009, {"ring_full": 7}), "exec": Account(3)})
    books.sequence("syscall", 900)
    books.sequence("exec", 3)
    books.lose("syscall", "batch", "unreadable", 13)
    books.leave_out("syscall", 11)
    books.close()
    lost = {(loss.place, loss.reason): loss.count for loss in books.account("syscall").lost}
    assert lost == {
        ("ring", "ring_full"): 7,
        ("batch", "unreadable"): 13,
        ("agent", "unread"): 1009 - 900 - 7 - 13 - 11,
    }
    assert not books.account("exec").lost


def test_accounts_are_cumulative_and_tell_what_is_incomplete() -> None:
    """A stream without events has an account; an account reports its incomplete events."""
    books = Books(["cuda_launch"])
    assert books.accounts()["cuda_launch"].emitted == 0
    books.set_kernel({"cuda_launch": Account(5, {}, incomplete=2)})
    assert (books.account("cuda_launch").emitted, books.account("cuda_launch").incomplete) == (5, 2)
