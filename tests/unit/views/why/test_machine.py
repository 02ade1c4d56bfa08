"""Who used the CPUs of a machine, as a sentence."""

from scope_views.why.machine import Process, sentence

MS = 1_000_000


def test_users_and_waiters() -> None:
    """Those with most time are named; a process without a name by its pid."""
    found = [
        Process(11, "hog", 700 * MS, 0),
        Process(12, "late\x1b[2J", 250 * MS, 90 * MS),
        Process(13, None, 50 * MS, 10 * MS),
    ]
    assert sentence(found) == (
        "3 processes used 1 s of CPU time: 70% hog (11), 25% late\\x1b[2J (12), 5% process 13. "
        "They waited 100 ms for a CPU: 90% late\\x1b[2J (12), 10% process 13."
    )


def test_nothing_to_tell() -> None:
    """Nothing was recorded, or nobody waited."""
    assert sentence([]) == "Nothing was recorded of which processes used its CPUs."
    assert sentence([Process(11, "a", MS, 0)]) == "1 process used 1 ms of CPU time: 100% a (11)."
