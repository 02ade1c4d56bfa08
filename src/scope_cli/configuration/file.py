"""Reads a configuration file: TOML without tables, one key for each setting."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scope_cli.errors import UsageError


@dataclass(frozen=True)
class Entry:
    """A key with its value, as TOML reads it, and the line where it begins, from 1."""

    value: Any
    line: int


def read(path: Path) -> dict[str, Entry]:
    """What stands in the file, by key.

    Raises:
        UsageError: it cannot be read, or is no TOML; the message names the line.
        FileNotFoundError: there is no such file.
    """
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; see who may read it, or name another file") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text in UTF-8; `scope config sample` shows how it looks") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}; write `key = value`, texts in quotes") from None
    return {name: Entry(value, _line(text, name)) for name, value in found.items()}


def _line(text: str, name: str) -> int:
    """The line on which the key begins: the longest beginning that is TOML without the key ends before it."""
    lines = text.split("\n")
    before = 0
    for count in range(1, len(lines) + 1):
        try:
            found = tomllib.loads("\n".join(lines[:count]))
        except tomllib.TOMLDecodeError:  # within a value of several lines
            continue
        if name in found:
            break
        before = count
    return before + 1
