"""Checks and locks the state directory."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scope_cli.errors import CommandError
from scope_server.errors import DirectoryInUse
from scope_server.store.postgres.lock import DirectoryLock

_FULL = (errno.ENOSPC, errno.EDQUOT)
_OTHER = "choose another with --state-dir"


@contextmanager
def owned(state: Path) -> Iterator[None]:
    """Creates the state directory if it is missing, and locks it during the block.

    Raises:
        CommandError: the directory cannot be used, or another process uses it.
    """
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check(state)
        lock = DirectoryLock(state)
        lock.take()
    except DirectoryInUse as error:
        raise CommandError(
            f"{state} is in use by another `scope up` (process {error.pid or 'unknown'}); stop it, or {_OTHER}"
        ) from None
    except OSError as error:
        raise CommandError(_explained(state, error)) from None
    try:
        yield
    finally:
        lock.release()


def _check(state: Path) -> None:
    found = state.stat()
    if found.st_uid != os.geteuid():
        raise CommandError(f"{state} belongs to user {found.st_uid}; run as that user, or {_OTHER}")
    if found.st_mode & 0o022:
        raise CommandError(f"other users may write to {state}; run `chmod go-w {state}`, or {_OTHER}")
    try:
        with tempfile.TemporaryFile(dir=state):
            pass
    except OSError as error:
        if error.errno not in _FULL:  # PostgreSQL frees its ballast, and reports an error if that is not enough
            raise


def _explained(state: Path, error: OSError) -> str:
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{state} cannot be the state directory: it is a file; {_OTHER}"
    if error.errno == errno.EROFS:
        return f"{state} is on a file system that is read-only; {_OTHER}"
    if isinstance(error, PermissionError):
        return f"user {os.geteuid()} may not write to {state}; run as its owner, or {_OTHER}"
    if error.errno in _FULL:
        return f"{state} is on a file system that is full; free some space, or {_OTHER}"
    return f"{state} cannot be used: {error.strerror}; {_OTHER}"
