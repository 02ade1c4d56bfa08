"""An answer of the server as a file: whole, or not there; an old file stays if the server has no answer."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def save(path: Path, ask: Callable[[BinaryIO], str]) -> None:
    """Writes an answer to the file, and says how large it is, and what was lost of it.

    Args:
        ask: writes the answer to a file, and returns what was lost of it.

    Raises:
        CommandError: the file cannot be written, or the server has no answer.
    """
    from scope_cli.errors import CommandError
    from scope_cli.printable import print_remark

    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            lost = ask(file)
        part.replace(path)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
    print_remark(f"scope: {path}: {path.stat().st_size:,} bytes{f'; lost: {lost}' if lost else ''}")
