"""What a host allows, as lines of text: its features, and each probe with where it attaches or why it cannot."""

from collections.abc import Iterator, Sequence


def feature_line(name: str, reason: str, *, available: bool) -> str:
    """A feature of the host."""
    return f"{'✓' if available else '✗'} {name}: {reason}"


def probe_lines(
    name: str, reason: str, *, available: bool, no_device: bool, attach_point: str, unseen: Sequence[str]
) -> Iterator[str]:
    """A probe that was tried."""
    mark = "✓" if available else "–" if no_device else "✗"
    yield f"{mark} {name}: {attach_point or reason}"
    if available:
        yield f"    {reason}"
    if unseen:
        yield f"    does not record {' and '.join(unseen)}"
