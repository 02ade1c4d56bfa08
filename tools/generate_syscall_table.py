#!/usr/bin/env python3
"""Makes src/scope_bpf/probes/syscalls/table.py, the names of Linux's system calls, from Debian's linux-libc-dev.

One package has the headers of all architectures, made from the kernel's own tables
(arch/x86/entry/syscalls/syscall_64.tbl and syscall_32.tbl, scripts/syscall.tbl, arch/arm/tools/syscall.tbl). The 32-bit
tables are those of i386 and of ARM's EABI, whose programs run on x86-64 and arm64. Numbers are never reused, so the
table of the newest kernel names the calls of every older one. (One moved before its first release: 54233a425403
("uretprobe: change syscall number, again", 6.11) put x86-64's uretprobe at 335.) The headers have every call of the
architectures, so no call is added by hand. `check` refuses an incomplete package.

To regenerate from the newest package (Debian keeps it in sid or a backports suite)::

    apt-get download linux-libc-dev
    tools/generate_syscall_table.py linux-libc-dev_*_all.deb
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

OUTPUT = Path(__file__).parents[1] / "src/scope_bpf/probes/syscalls/table.py"
HEADERS = {
    "X86_64": "x86/asm/unistd_64.h",
    "ARM64": "arm64/asm/unistd_64.h",
    "I386": "x86/asm/unistd_32.h",
    "ARM": "arm/asm/unistd-eabi.h",
}
UAPI = "usr/lib/linux/uapi"

# Calls that the headers must have, from the first to new ones. An old package or one with moved headers is refused.
EXPECTED = {
    "X86_64": {0: "read", 334: "rseq", 335: "uretprobe", 336: "uprobe", 424: "pidfd_send_signal"},
    "ARM64": {0: "io_setup", 63: "read", 79: "newfstatat", 293: "rseq", 424: "pidfd_send_signal"},
    "I386": {0: "restart_syscall", 5: "open", 102: "socketcall", 386: "rseq", 403: "clock_gettime64"},
    "ARM": {0: "restart_syscall", 5: "open", 270: "arm_fadvise64_64", 398: "rseq", 403: "clock_gettime64"},
}
EXPECTED_NEWEST = {462: "mseal", 463: "setxattrat", 467: "open_tree_attr", 468: "file_getattr"}

TEMPLATE = '''\
# DO NOT EDIT: made by tools/generate_syscall_table.py from linux-libc-dev {version}
"""The names of Linux's system calls by number, for each architecture.

Each run is a first number and the names from there on; numbers between runs belong to no call.
"""

from collections.abc import Mapping
from typing import Final

{tables}'''

TABLE = """\
{name}: Final[Mapping[int, str]] = {{
    number: call
    for first, calls in (
{runs}
    )
    for number, call in enumerate(calls.split(), first)
}}
"""


_DEFINITION = re.compile(r"^#define __NR_(\w+)\s+(?:\(__NR_SYSCALL_BASE \+ )?(\d+)\)?$", re.MULTILINE)


def read_header(header: Path) -> dict[int, str]:
    """Returns the calls that a header defines as ``#define __NR_name number``, by ascending number.

    ARM's numbers are written as ``(__NR_SYSCALL_BASE + number)``; the base is 0 in the EABI (arm/asm/unistd.h).

    Raises:
        ValueError: if two names share a number.
    """
    calls: dict[int, str] = {}
    for name, digits in _DEFINITION.findall(header.read_text()):
        number = int(digits)
        if number in calls:
            raise ValueError(f"{header}: {number} is both {calls[number]} and {name}")
        calls[number] = name
    return dict(sorted(calls.items()))


def check(table: str, calls: dict[int, str]) -> None:
    """Refuses a table without the calls that complete and recent headers have.

    Raises:
        ValueError: with the numbers that are absent or have another name.
    """
    expected = EXPECTED[table] | EXPECTED_NEWEST
    wrong = {number: name for number, name in expected.items() if calls.get(number) != name}
    if wrong:
        raise ValueError(f"{table}: the header lacks {wrong}; is linux-libc-dev too old?")


def runs(calls: dict[int, str]) -> list[tuple[int, list[str]]]:
    """Splits a table at its gaps: (first number, names from there on) for each dense run."""
    found: list[tuple[int, list[str]]] = []
    for number, name in calls.items():
        if not found or number != found[-1][0] + len(found[-1][1]):
            found.append((number, []))
        found[-1][1].append(name)
    return found


def render(version: str, tables: dict[str, dict[int, str]]) -> str:
    """Returns the module's text. The names are in strings, so that a formatter does not change their lines."""
    rendered = []
    for table, calls in tables.items():
        blocks = [
            f'        (\n            {first},\n            """\n{_wrap(names)}\n            """,\n        ),'
            for first, names in runs(calls)
        ]
        rendered.append(TABLE.format(name=table, runs="\n".join(blocks)))
    return TEMPLATE.format(version=version, tables="\n".join(rendered))


def _wrap(names: list[str]) -> str:
    indent = " " * 12
    return textwrap.fill(" ".join(names), width=100, initial_indent=indent, subsequent_indent=indent)


def version_of(package: Path) -> str:
    """Returns the version of a .deb."""
    command = ["dpkg-deb", "--field", str(package), "Version"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    """Reads the arguments, writes the table, and says how many calls it has."""
    parser = argparse.ArgumentParser(description="make the table of system calls from kernel headers")
    parser.add_argument("source", type=Path, help=f"linux-libc-dev_*_all.deb, or a directory laid out as its {UAPI}")
    parser.add_argument("--version", help="the package's version, where SOURCE is a directory")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    source: Path = arguments.source
    if source.is_dir() and arguments.version is None:
        parser.error("a directory does not say its version: give --version")

    with tempfile.TemporaryDirectory() as scratch:
        version, headers = arguments.version, source
        if source.is_file():
            subprocess.run(["dpkg-deb", "--extract", str(source), scratch], check=True)
            version, headers = arguments.version or version_of(source), Path(scratch, UAPI)
        try:
            tables = {table: read_header(headers / path) for table, path in HEADERS.items()}
            for table, calls in tables.items():
                check(table, calls)
        except (OSError, ValueError) as error:
            print(f"{source}: {error}", file=sys.stderr)
            return 1

    arguments.output.write_text(render(version, tables))
    for table, calls in tables.items():
        print(f"{table}: {len(calls)} calls, the newest {max(calls)} {calls[max(calls)]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
