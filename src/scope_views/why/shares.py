"""Parts of a whole as text: the largest first, those that are too small to matter left out."""

from collections.abc import Iterable

WORTH_TELLING = 0.05  # of the time that a sentence is about


def shares(parts: Iterable[tuple[str, int]], whole: int, most: int | None = None) -> str:
    """Each part with its share: `61% on a CPU, 30% blocked`; empty: none is worth telling.

    Args:
        parts: what each is, and its time in ns.
        whole: in ns; at least 1.
        most: how many parts; None: all.
    """
    told = sorted((part for part in parts if part[1] >= WORTH_TELLING * whole), key=lambda part: -part[1])
    return ", ".join(f"{ns / whole:.0%} {name}" for name, ns in told[:most])
