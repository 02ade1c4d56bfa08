"""The types of settings: how a value is written on a command line or in a variable, and in a TOML file."""

import argparse
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

from scope_cli.quantities import bytes_of
from scope_wire.setting import Setting

_BINARY = ("", "K", "M", "G", "T")


@dataclass(frozen=True)
class Kind:
    """How values of a type are read and written.

    Attributes:
        metavar: stands for a value in the help.
        of_text: reads a value from a flag or a variable; raises ValueError, whose message says how to write it.
        of_toml: reads a value from what TOML made of the file; raises the same.
        toml: writes a value for a file.
        many: a list; its flag may be repeated, with one member each.
    """

    metavar: str
    of_text: Callable[[str], Any]
    of_toml: Callable[[Any], Any]
    toml: Callable[[Any], str]
    many: bool = False


def kind_of(declared: Any, setting: Setting) -> Kind:
    """The kind of a setting, by its declared type and its unit."""
    if get_origin(declared) is tuple:
        return _TEXTS if get_args(declared)[0] is str else _NUMBERS
    if setting.unit == "bytes":
        return _BYTES
    (wanted,) = (each for each in get_args(declared) or (declared,) if each is not NoneType)
    return _KINDS[wanted]


def _whole_number(given: Any) -> int:
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    try:
        return int(given) if isinstance(given, str) and given.strip() == given else int("")
    except ValueError:
        raise ValueError(f"{_shown(given)} is no whole number") from None


def _number(given: Any) -> float:
    try:
        number = float(given) if isinstance(given, str | int | float) and not isinstance(given, bool) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{_shown(given)} is no number")
    return number


def _bytes(given: Any) -> int:
    try:
        return bytes_of(given) if isinstance(given, str) else bytes_of(str(_whole_number(given)))
    except (argparse.ArgumentTypeError, ValueError):
        raise ValueError(f"{_shown(given)} is no number of bytes; write it as 512M or 2G") from None


def _path_of_text(text: str) -> Path:
    if not text:
        raise ValueError("a path is missing")
    return Path(text).absolute()


def _path(given: Any) -> Path:
    if not isinstance(given, str) or not given.startswith("/"):
        raise ValueError(f"{_shown(given)} is no absolute path; write it in quotes, from / on")
    return Path(given)


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError(f"{_shown(given)} is no text; put it in quotes")
    return given


def _numbers(given: Any) -> tuple[int, ...]:
    if not isinstance(given, list):
        raise ValueError(f"{_shown(given)} is no list; write it as [12, 345]")
    return tuple(map(_only_number, given))


def _texts(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise ValueError(f'{_shown(given)} is no list; write it as ["one", "two"]')
    return tuple(map(_text, given))


def _only_number(given: Any) -> int:
    if isinstance(given, str):
        raise ValueError(f"{_shown(given)} is no number; leave out the quotes")
    return _whole_number(given)


def _only_float(given: Any) -> float:
    if isinstance(given, str):
        raise ValueError(f"{_shown(given)} is no number; leave out the quotes")
    return _number(given)


def _shown(given: Any) -> str:
    """A value in a message, as its author wrote it or nearly so."""
    text = f"'{given}'" if isinstance(given, str) else json.dumps(given, default=str)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _toml_text(text: object) -> str:
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")  # a JSON string is a TOML basic string


def _toml_bytes(count: int) -> str:
    power = max(power for power in range(len(_BINARY)) if not count & ((1 << (10 * power)) - 1) and count >> 10 * power)
    return _toml_text(f"{count >> 10 * power}{_BINARY[power]}") if power else str(count)


def _toml_texts(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_toml_text, texts))}]"


def _toml_numbers(numbers: Iterable[int]) -> str:
    return f"[{', '.join(map(str, numbers))}]"


_BYTES = Kind("N", _bytes, _bytes, _toml_bytes)
_NUMBERS = Kind("N", lambda text: tuple(map(_whole_number, text.split(","))), _numbers, _toml_numbers, many=True)
_TEXTS = Kind("TEXT", lambda text: tuple(map(_text, text.split(","))), _texts, _toml_texts, many=True)
_KINDS = {
    int: Kind("N", _whole_number, _only_number, str),
    float: Kind("N", _number, _only_float, lambda number: f"{number:g}"),
    str: Kind("TEXT", _text, _text, _toml_text),
    Path: Kind("PATH", _path_of_text, _path, _toml_text),
}
