"""Texts of other programs, such as file names, made harmless for a terminal."""


def printable(text: str) -> str:
    """The text with every control character escaped (`\\x1b`, `\\n`, `\\u202e`): it takes one line and no effect."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
