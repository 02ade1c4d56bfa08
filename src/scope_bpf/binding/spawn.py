"""A command that waits, forked but not yet executed."""

import os
from collections.abc import Sequence

from scope_bpf.binding.ffi import check, ffi, lib


def spawn_held(path: str, command: Sequence[str]) -> tuple[int, int]:
    """Its pid, and the descriptor that lets it run when a byte is written to it, and ends it when it is closed.

    Raises:
        KernelError: there is no room for another process.
    """
    words = [ffi.new("char[]", os.fsencode(word)) for word in command]
    release_fd = ffi.new("int *")
    pid = lib.scope_spawn_held(os.fsencode(path), [*words, ffi.NULL], release_fd)
    return check(pid, f"cannot start '{command[0]}'"), int(release_fd[0])
