"""Where wall time went, as a sentence."""

from scope_views.why import Call, Wall, sentence

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


def test_hostile_texts() -> None:
    """Paths are printed without effect."""
    assert "\x1b" not in sentence(WALL, [Call("read", "/x\x1b[2J", 2_000_000_000)])
