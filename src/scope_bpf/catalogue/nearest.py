"""Names that nobody has: what was meant, and what there is."""

from collections.abc import Iterable
from difflib import get_close_matches

_SUGGESTED = 3
_LISTED = 40  # names; of more, only the nearest are told
_LONGEST = 60  # characters of a name that is quoted


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """What to say of a name that is not known: `no column 'pth' (did you mean 'path'?); there are: path, ret`.

    Args:
        what: what the name is one of, such as `column`.
    """
    names = list(known)
    shown = f"'{name[:_LONGEST]}…'" if len(name) > _LONGEST else f"'{name}'"
    listed = f"; there are: {', '.join(names) or 'none'}" if len(names) <= _LISTED else ""
    return f"no {what} {shown}{meant(name, names)}{listed}"


def meant(name: str, known: Iterable[str]) -> str:
    """The known names most like this one, to stand behind it: ` (did you mean 'path'?)`; empty if none is like it."""
    by_lower: dict[str, str] = {}
    for each in known:
        by_lower.setdefault(each.lower(), each)
    found = get_close_matches(name[:_LONGEST].lower(), by_lower, _SUGGESTED)
    nearest = " or ".join(f"'{by_lower[each]}'" for each in found)
    return f" (did you mean {nearest}?)" if found else ""
