"""Messages about unknown names: which known names are similar, and which names there are."""

from collections.abc import Iterable

_SUGGESTED = 3
_LISTED = 100  # names; a longer list is left out of a message
_LONGEST = 60  # characters of a quoted name


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """A message about an unknown name: `no column 'pth' (did you mean 'path'?); there are: path, ret`.

    Args:
        what: the kind of thing that has such names, such as `column`.
    """
    names = list(known)
    shown = f"'{name[:_LONGEST]}…'" if len(name) > _LONGEST else f"'{name}'"
    listed = f"; there are: {', '.join(names) or 'none'}" if len(names) <= _LISTED else ""
    return f"no {what} {shown}{meant(name, names)}{listed}"


def meant(name: str, known: Iterable[str]) -> str:
    """The most similar known names, as the end of a message: ` (did you mean 'path'?)`; empty if none is similar."""
    from difflib import get_close_matches  # noqa: PLC0415  # takes a millisecond that only a mistake has to pay

    by_lower: dict[str, str] = {}
    for each in known:
        by_lower.setdefault(each.lower(), each)
    found = get_close_matches(name[:_LONGEST].lower(), by_lower, _SUGGESTED)
    nearest = " or ".join(f"'{by_lower[each]}'" for each in found)
    return f" (did you mean {nearest}?)" if found else ""
