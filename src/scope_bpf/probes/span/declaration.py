"""Declarations of what to record: `FILE:FUNCTION NAME=SOURCE ...`, such as `libc:malloc size=arg0 at=ret:ptr`.

A USDT probe is declared likewise: `FILE:PROVIDER:NAME NAME=SOURCE ...`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from scope_bpf.catalogue.place import Pattern, Place, Usdt
from scope_catalogue.errors import InvalidOption
from scope_catalogue.nearest import unknown

ARGUMENTS = 10  # calls.bpf.h reads as many
USDT_ARGUMENTS = 12  # usdt.bpf.h
MOST_VALUES = 6  # SPAN_VALUES
MOST_STEPS = 4  # SPAN_STEPS
_MOST_OFFSET = 1 << 31
_MOST_DECLARED = 256
_LONGEST = 1024  # characters of a declaration

TEXT = "str"
TYPES: Mapping[str, np.dtype[np.generic]] = {
    **{f"{kind}{bits}": np.dtype(f"<{kind}{bits // 8}") for kind in "ui" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"<f{bits // 8}") for bits in (32, 64)},
    "bool": np.dtype("<u1"),
    "ptr": np.dtype("<u8"),
}
_KEPT = re.compile(r"(?P<name>[^=]*)(?P<equals>=?)(?P<source>[^:]*?)(?P<steps>(->[^:]*)?)(:(?P<type>.*))?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MARKED = re.compile(r"(?P<provider>[^:\s(<]+):(?P<name>[^:\s(<]+)")
_OFFSET = re.compile(r"[+-]?(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,16})")


@dataclass(frozen=True)
class Kept:
    """A value that is kept of each call.

    Attributes:
        argument: number of the argument from which it comes, from 0; None: the returned value.
        offsets: pointers to follow: the value is at the last offset from the value before.
        type: one of TYPES, or TEXT.
    """

    name: str
    argument: int | None
    offsets: tuple[int, ...]
    type: str

    @property
    def size(self) -> int:
        """Bytes of the value in memory. A text is kept by a pointer to it."""
        return 8 if self.type == TEXT else TYPES[self.type].itemsize


@dataclass(frozen=True)
class Declaration:
    """The functions or USDT probes to record, and what to keep of each call."""

    at: Pattern | Usdt
    values: tuple[Kept, ...]
    text: Kept | None


@dataclass(frozen=True)
class SpanPlace(Place):
    """A place with its declaration."""

    declaration: Declaration = field(kw_only=True)


def parse(declared: str) -> Declaration:
    """A declaration as people write it.

    Raises:
        InvalidOption: it is none; the message names the part and its column, from 1.
    """
    if len(declared) > _LONGEST or "\0" in declared:
        raise InvalidOption(f"a declaration has at most {_LONGEST} characters, and no NUL")
    place, words = _split(declared)
    file, colon, name = place.partition(":")
    if not (file and colon and name):
        raise _complaint(declared, 1, f"'{place}' is not FILE:FUNCTION, such as libc:malloc, nor FILE:PROVIDER:NAME")
    marked = _MARKED.fullmatch(name)
    if (blank := name.find(" ")) >= 0 and not any(part in name for part in ("(", "<", "operator")):
        column = declared.index(name) + blank + 2
        raise _complaint(declared, column, f"'{name[blank + 1 :]}' is not NAME=SOURCE, such as size=arg0:u64")
    kept = [_kept(declared, column, word, is_usdt=bool(marked)) for column, word in words]
    for number, (one, (column, _)) in enumerate(zip(kept, words, strict=True)):
        if one.name in (other.name for other in kept[:number]):
            raise _complaint(declared, column, f"'{one.name}' is there twice")
    texts = [one for one in kept if one.type == TEXT]
    values = tuple(one for one in kept if one.type != TEXT)
    if len(texts) > 1:
        raise InvalidOption(f"'{declared}': one text (str) can be kept of a call, not {len(texts)}")
    if len(values) > MOST_VALUES:
        raise InvalidOption(f"'{declared}': {MOST_VALUES} numbers can be kept of a call, not {len(values)}")
    at: Pattern | Usdt = Pattern(file, name)
    if marked:
        wanted = sorted({one.argument for one in kept if one.argument is not None})
        at = Usdt(marked["provider"], marked["name"], file, tuple(wanted))
    return Declaration(at, values, texts[0] if texts else None)


def check(declared: tuple[str, ...]) -> None:
    """Checks declarations.

    Raises:
        InvalidOption: one is wrong, there are too many, or the same functions are declared twice.
    """
    if len(declared) > _MOST_DECLARED:
        raise InvalidOption(f"{_MOST_DECLARED} declarations can be given, not {len(declared):,}; use patterns")
    places: set[str] = set()
    for at in (Place(parse(each).at, "").name for each in declared):
        if at in places:
            raise InvalidOption(f"'{at}' is declared twice; put all its arguments into one declaration")
        places.add(at)


def _split(declared: str) -> tuple[str, list[tuple[int, str]]]:
    """The text before the first NAME=SOURCE, and these words with their columns. Names of C++ may have blanks."""
    words = [(match.start(), match[0]) for match in re.finditer(r"\S+", declared)]
    is_value = ["=" in word and "operator" not in word for _, word in words]
    first = is_value.index(True) if True in is_value else len(words)
    end = words[first][0] if first < len(words) else len(declared)
    return declared[:end].strip(), [(at + 1, word) for at, word in words[first:]]


def _kept(declared: str, column: int, word: str, *, is_usdt: bool) -> Kept:
    match = _KEPT.fullmatch(word)
    assert match  # every part may be empty
    name, source, type_ = match["name"], match["source"], match["type"]
    if not match["equals"] or not _NAME.fullmatch(name):
        raise _complaint(declared, column, f"'{word}' is not NAME=SOURCE, such as size=arg0:u64")
    column += len(name) + 1
    most = USDT_ARGUMENTS if is_usdt else ARGUMENTS
    if source == "ret" and not is_usdt:
        argument = None
    elif re.fullmatch(r"arg(0|[1-9][0-9]?)", source) and int(source[3:]) < most:
        argument = int(source[3:])
    elif is_usdt:
        is_result = ": a USDT probe has no result" if source == "ret" else ""
        raise _complaint(declared, column, f"'{source}' is not one of arg0 to arg{most - 1}{is_result}")
    else:
        raise _complaint(declared, column, f"'{source}' is neither ret nor one of arg0 to arg{most - 1}")
    offsets = tuple(_offsets(declared, column + len(source), match["steps"]))
    if type_ is None:  # the notes of USDT probes say which arguments are signed
        type_ = "i64" if is_usdt and not offsets else "u64"
    column += len(source) + len(match["steps"]) + 1
    if type_ not in (*TYPES, TEXT):
        raise _complaint(declared, column, unknown("type", type_, (*TYPES, TEXT)))
    if type_ in ("f32", "f64") and not offsets and not is_usdt:
        raise _complaint(declared, column, f"a {type_} can be read in memory (arg0->0:{type_}), not as an argument")
    return Kept(name, argument, offsets, type_)


def _offsets(declared: str, column: int, steps: str) -> Iterator[int]:
    parts = steps.split("->")[1:]
    if len(parts) > MOST_STEPS:
        raise _complaint(declared, column, f"{MOST_STEPS} pointers can be followed, not {len(parts)}")
    for part in parts:
        column += 2
        base = 16 if "x" in part.lower() else 10
        if not _OFFSET.fullmatch(part) or not -_MOST_OFFSET <= (offset := int(part, base)) < _MOST_OFFSET:
            raise _complaint(declared, column, f"'{part}' is not an offset in bytes, such as +0x50")
        yield offset
        column += len(part)


def _complaint(declared: str, column: int, reason: str) -> InvalidOption:
    return InvalidOption(f"'{declared}', column {column}: {reason}")
