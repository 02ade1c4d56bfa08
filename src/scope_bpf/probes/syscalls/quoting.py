"""Bytes as strace shows them, with C's escapes: what is shown is ASCII only."""

import re

_NAMED = {"\t": r"\t", "\n": r"\n", "\v": r"\v", "\f": r"\f", "\r": r"\r", '"': r"\"", "\\": r"\\"}
_IN_QUOTES = re.compile(r"([^ !#-\[\]-~])(?=([0-7]?))")
_IN_BRACKETS = re.compile(r"([^ !#-;=?-\[\]-~])(?=([0-7]?))")


def quoted(value: bytes) -> str:
    r"""In quotes: `"a\n"`."""
    return f'"{_IN_QUOTES.sub(_escape, value.decode("latin-1"))}"'


def bracketed(value: bytes) -> str:
    """In angle brackets, `</tmp/x>`, where those within are escaped, too."""
    return f"<{_IN_BRACKETS.sub(_escape, value.decode('latin-1'))}>"


def _escape(found: re.Match[str]) -> str:
    # An octal escape is as short as it can be, but has all three digits before another digit.
    character, digit = found.groups()
    return _NAMED.get(character) or f"\\{ord(character):{'03o' if digit else 'o'}}"
