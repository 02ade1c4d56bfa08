"""Finds files that will be mapped: those of a command, and installed libraries."""

import logging
import os
import re
import subprocess
from io import FileIO
from pathlib import Path

from scope_bpf.code.elf import ElfFile
from scope_bpf.errors import NotElf

log = logging.getLogger(__name__)

_LISTED = re.compile(rb"(?:=> )?(/\S+) \(0x[0-9a-f]+\)$")
_INTERPRETERS = 4  # a script's interpreter may be a script, BINPRM_MAX_RECURSION in include/linux/binfmts.h
_SECONDS = 10


def files_of_command(path: str) -> list[str]:
    """The program of a command, and the libraries that its loader finds in this environment.

    Asks the loader (ld.so(8), --list), because only the loader knows its search paths. Libraries that the program opens
    later itself are not included.
    """
    program = _program(path)
    try:
        with FileIO(program) as file:
            loader = ElfFile(file).interpreter
    except (OSError, NotElf):
        return []
    if not loader or not Path(loader).exists():
        return [program]
    try:
        listed = subprocess.run([loader, "--list", program], capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("cannot list the libraries of a command", extra={"program": program, "reason": str(error)})
        return [program]
    found = [match[1] for line in listed.stdout.splitlines() if (match := _LISTED.search(line))]
    return [program, *map(os.fsdecode, found)]


def installed_libraries(beginnings: tuple[str, ...]) -> list[str]:
    """The libraries in the loader's cache (ldconfig(8)) whose names begin with one of `beginnings`."""
    try:
        listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, timeout=_SECONDS, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("cannot list the installed libraries", extra={"reason": str(error)})
        return []
    entries = [line.strip().partition(b" => ") for line in listed.splitlines()]
    wanted = tuple(map(os.fsencode, beginnings))
    return [os.fsdecode(path) for name, _, path in entries if path and name.startswith(wanted)]


def _program(path: str) -> str:
    for _ in range(_INTERPRETERS):
        with Path(path).open("rb") as file:
            first = file.readline(256)
        if not first.startswith(b"#!") or not (words := first[2:].split()):
            break
        path = os.fsdecode(words[0])
    return path
