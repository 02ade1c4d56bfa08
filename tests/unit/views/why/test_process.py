"""Where wall time went, as a sentence."""

from scope_views.why.process import Call, Lock, Wall, sentence

WALL = Wall(10_000_000_000, 1_000_000_000, 6_100_000_000, 2_900_000_000)


def test_the_largest_part_is_first() -> None:
    """Then the calls in which threads were blocked, with their files; small parts and calls are left out."""
    calls = [Call("read", "/data/x", 1_160_000_000), Call("futex", None, 1_000_000_000), Call("poll", "pipe", 1_000)]
    assert sentence(WALL, calls) == (
        "Of 10 s of its threads' time: 61% waiting for a CPU, 29% blocked, 10% on a CPU. "
        "Of the time blocked: 40% in read of /data/x, 34% in futex."
    )


def test_nothing_was_recorded() -> None:
    """Or only that time passed."""
    assert sentence(None) == "Nothing was recorded of where its time went."
    assert sentence(Wall(0, 0, 0, 0)) == "Nothing was recorded of where its time went."
    assert sentence(Wall(7, 0, 0, 0)) == "Of 7 ns of its threads' time: nothing known."


def test_locks_have_their_holders() -> None:
    """After the calls; a lock whose holder is unknown is only named, and short waits are left out."""
    locks = [Lock("0x7f10", "worker", 1_000_000_000), Lock("0x8", None, 200_000_000), Lock("0x9", "other", 1_000)]
    said = sentence(WALL, [Call("futex", None, 1_450_000_000)], locks)
    assert said.endswith(
        " Of the time blocked: 50% in futex. It waited 1 s for the lock 0x7f10 that worker held, "
        "200 ms for the lock 0x8."
    )


def test_hostile_texts() -> None:
    """Paths and names are printed without effect."""
    assert "\x1b" not in sentence(WALL, (), [Lock("0x8", "a\x1b[2J", 2_000_000_000)])
    assert "\x1b" not in sentence(WALL, [Call("read", "/x\x1b[2J", 2_000_000_000)])
