"""Runs a command under strace, parses its calls, and removes values that differ between two runs."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scope_bpf.capture.command import HeldCommand

_LINE = re.compile(r"(\w+)\((.*)\)\s+= (.*)", re.DOTALL)
_POINTER = re.compile(r"\b0x[0-9a-f]{6,16}\b")
_EXPANDED = re.compile(r"[\[{~&]")  # the begin of a struct or array that strace read through a pointer
_NUMBERED = re.compile(r"\b(pipe|socket|UNIX-\w+|NETLINK|\w+):\[(?:\d+|\d+->\d+|\w+:\d+)\]")
_PORT = re.compile(r"((?:127\.0\.0\.1|0\.0\.0\.0):|htons\()\d+")

_URETPROBE = ("uretprobe", "syscall_0x14f")  # an older strace does not know its name
DATA_BYTES = 601  # shown of each buffer

# Calls with a pid or tid as result or argument, which differs between runs.
_PROCESSES = {
    "getpid", "getppid", "gettid", "getpgid", "getpgrp", "getsid", "clone", "clone3", "fork", "vfork", "wait4",
    "set_tid_address", "kill", "tgkill", "setpgid", "prlimit64",
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A call: its name, its arguments, its result."""

    name: str
    arguments: tuple[str, ...]
    result: str

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.arguments)}) = {self.result}"


def straced(command: Sequence[str], output: Path) -> list[list[Line]]:
    """Runs a command under strace; returns the calls of each thread, threads in the order of their begin."""
    output.mkdir()
    held = HeldCommand(
        ["strace", "-ff", "-yy", "-qq", "-s", str(DATA_BYTES), "-e", "signal=none", "-o", f"{output}/of", *command]
    )
    held.release()
    while held.poll() is None:
        os.sched_yield()
    held.close()
    files = sorted(output.iterdir(), key=lambda path: began_after(held.pid, int(path.suffix[1:])))
    return [[line for text in path.read_text().splitlines() if (line := _called(text))] for path in files]


def _called(text: str) -> Line | None:
    """The program's own call: a uretprobe that another test has in the same library calls uretprobe(2)."""
    line = parsed(text) if _LINE.match(text) else None
    return None if line and line.name in _URETPROBE else line


def began_after(first: int, tid: int) -> int:
    """Sort key for threads newer than `first`, by their begin: tids grow up to pid_max, then restart."""
    return (tid - first) % int(Path("/proc/sys/kernel/pid_max").read_text())


def without_waiting(lines: Sequence[Line]) -> list[Line]:
    """The lines without those whose order and number depend on timing.

    When a child ends, its parent may wait already, or not yet, or be in the next fork, which the kernel then restarts.
    """
    by_chance = ("wait4", "rt_sigreturn")
    return [line for line in lines if line.name not in by_chance and not line.result.startswith("? ERESTARTNOINTR")]


def reaped(lines: Sequence[Line]) -> list[tuple[str, str]]:
    """The pid and rusage arguments of each wait4 that reaped a child."""
    waits = [line for line in lines if line.name == "wait4" and line.result.isdecimal() and line.result != "0"]
    return [(line.arguments[0], line.arguments[3]) for line in waits]


def parsed(line: str) -> Line:
    """Parses a line of strace, or one in the same format."""
    match = _LINE.fullmatch(line)
    assert match, line
    return Line(match[1], tuple(split(match[2])), match[3])


def split(arguments: str) -> list[str]:
    """Splits arguments at commas, except commas in strings or brackets."""
    found, depth, quoted, begin = [], 0, False, 0
    skip = False
    for at, character in enumerate(arguments):
        if skip:
            skip = False
        elif quoted:
            skip, quoted = character == "\\", character != '"'
        elif character == '"':
            quoted = not _in_angles(arguments[begin:at])
        elif character in "[{(":
            depth += 1
        elif character in "]})":
            depth -= 1
        elif character == "," and not depth and not _in_angles(arguments[begin:at]):
            found.append(arguments[begin:at].strip())
            begin = at + 1
    return [*found, arguments[begin:].strip()] if arguments else []


def _in_angles(text: str) -> bool:
    """Whether the text ends within a descriptor's <file>; strace escapes these brackets in file names."""
    opened = re.match(r"(?:-?\d+|AT_FDCWD)<", text)
    return bool(opened) and ">" not in text


def without_chance(line: Line) -> Line:
    """A call without values that differ between runs: addresses, inodes, ports, pids."""
    arguments = tuple(_plain(argument) for argument in line.arguments)
    result = _plain(line.result)
    if line.name in _PROCESSES:
        arguments = tuple(re.sub(r"^\d{2,}$", "PROCESS", argument) for argument in arguments)
        result = re.sub(r"^\d{2,}$", "PROCESS", result)
    return Line(line.name, arguments, result)


def _plain(text: str) -> str:
    text = re.sub(r"\s*/\* [^*]* \*/", "", text)  # strace's counts of omitted items
    text = re.sub(r"<(?:char|block) \d+:\d+>>", ">", text)  # device numbers
    text = _PORT.sub(r"\1PORT", _POINTER.sub("POINTER", text))
    return _NUMBERED.sub(lambda found: f"{'socket' if found[1] not in ('pipe',) else 'pipe'}:[N]", text)


def agree(theirs: Line, ours: Line) -> bool:
    """Whether two lines show the same call, as far as both show its arguments."""
    theirs, ours = without_chance(theirs), without_chance(ours)
    if theirs.name == "clone":  # strace names the arguments and omits those that the flags do not use
        theirs = Line(
            "clone", tuple(re.findall(r"(?:flags|child_stack)=([^,]*)", ", ".join(theirs.arguments))), theirs.result
        )
        ours = Line("clone", (ours.arguments[1], ours.arguments[0]), ours.result)
    if theirs.name == "getrandom":  # random bytes differ between runs, and ours does not show them
        theirs = Line("getrandom", ours.arguments[:1] + theirs.arguments[1:], theirs.result)
    return (
        theirs.name == ours.name
        and theirs.result == ours.result
        and len(theirs.arguments) == len(ours.arguments)
        and all(map(_same, theirs.arguments, ours.arguments))
    )


def _same(theirs: str, ours: str) -> bool:
    return theirs == ours or (ours == "POINTER" and bool(_EXPANDED.match(theirs)))
