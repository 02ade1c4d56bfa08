"""What a host allows, as lines of text: its features, and each probe with where it attaches or why it cannot."""

from collections.abc import Iterable, Iterator, Sequence


def feature_line(name: str, reason: str, *, available: bool) -> str:
    """A feature of the host."""
    return f"{'✓' if available else '✗'} {name}: {reason}"


def probe_lines(
    name: str,
    reason: str,
    *,
    available: bool,
    no_device: bool,
    attach_point: str,
    unseen: Sequence[str],
    tried: Iterable[tuple[str, str]],
) -> Iterator[str]:
    """A probe that was tried.

    Args:
        tried: other options, as NAME=VALUE, each with why the probe cannot run so, or an empty text.
    """
    mark = "✓" if available else "–" if no_device else "✗"
    yield f"{mark} {name}: {attach_point or reason}"
    if available:
        yield f"    {reason}"
    if unseen:
        yield f"    does not record {' and '.join(unseen)}"
    for option, refused in tried:
        yield f"    {'✗' if refused else '✓'} -o {option}{refused and ': '}{refused}"
