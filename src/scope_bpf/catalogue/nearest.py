"""Names that nobody has: what was meant, and what there is."""

from collections.abc import Iterable
from difflib import get_close_matches

_SUGGESTED = 3
_LISTED = 40  # names; of more, only the nearest are told
_LONGEST = 60  # characters of a name that is quoted


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """A sentence about a name that is not known: `no column 'pth'; did you mean 'path'? There are: path, ret`.

    Args:
        what: what the name is one of, such as `column`.
    """
    names = list(known)
    shown = f"'{name[:_LONGEST]}…'" if len(name) > _LONGEST else f"'{name}'"
    listed = ", ".join(names) or "none"
    if near := nearest(name, names):
        meant = " or ".join(f"'{each}'" for each in near)
        rest = f" There are: {listed}" if len(names) <= _LISTED else ""
        return f"no {what} {shown}; did you mean {meant}?{rest}"
    return f"no {what} {shown}; there are: {listed}" if len(names) <= _LISTED else f"no {what} {shown}"


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names most like this one, the likeliest first; at most three, and none if nothing is like it."""
    by_lower: dict[str, str] = {}
    for each in known:
        by_lower.setdefault(each.lower(), each)
    found = get_close_matches(name[:_LONGEST].lower(), by_lower, _SUGGESTED)
    return [by_lower[each] for each in found]
