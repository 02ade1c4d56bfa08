"""Each command of docs/bcc.md, run beside a workload of known sessions, programs, files, requests and memory."""

import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import SCOPE, until
from tests.probes.disks import loop_disk
from tests.probes.test_dns import resolving

PAGE = (Path(__file__).parents[2] / "docs" / "bcc.md").read_text()
COMMANDS = set(re.findall(r"`scope trace ([^`]+)`", PAGE))
TASKS = [sys.executable, "-S", "-E", str(Path(__file__).with_name("bcc_tasks.py"))]
ALONE = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
SESSIONS, PROGRAMS, OPENS = [*ALONE, *TASKS, "sessions"], [*TASKS, "programs"], [*TASKS, "opens"]
REFUSED = r"connection .* 127\.0\.0\.1:9 .* error=-111 ECONNREFUSED "
ALLOCS = """
#include <stdio.h>
#include <stdlib.h>
#pragma GCC optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")
#define NAMED __attribute__((noinline, noclone)) void
static void *volatile kept;
NAMED leak(void) { for (int i = 0; i < 1009; i++) kept = malloc(307); }
NAMED hold(void) { kept = malloc(5003); }
NAMED freed(void) { for (int i = 0; i < 1009; i++) { kept = malloc(i); free(kept); } }
NAMED work(void) { leak(); hold(); freed(); }
int main(void)
{
	getchar();
	work();
	puts("done");
	fflush(stdout);
	while (getchar() != EOF) {}
}
"""

# Of each command: what it runs beside, and how many of its lines match. "" counts all lines of rows.
SHOWN: dict[str, tuple[list[str], dict[str, int]]] = {
    "net --lines --where 'is_last = 1'": (
        SESSIONS,
        {"": 15, REFUSED: 1, r" sent=101 B  received=7 B .* lifetime=[\d.]+": 7, r" sent=7 B  received=101 B ": 7},
    ),
    "net --lines --pid 4711 --where 'is_last = 1'": (SESSIONS, {"": 15, " 4711 ": 13}),  # two are of its child
    "net --lines --where 'is_last = 1 and local_port in (80, 81)'": (SESSIONS, {r" \S+:80  \S+:\d+ ": 5, "": 7}),
    "net --lines --where 'is_last = 1 and remote_port = 80'": (SESSIONS, {"": 5, r" \S+:80  direction=outgoing": 5}),
    "net --lines --where \"is_last = 1 and remote !~ '*:*'\"": (SESSIONS, {"": 13, r" 127\.0\.0\.1:\d+  127\.": 13}),
    "net --lines --where \"is_last = 1 and remote ~ '*:*'\"": (SESSIONS, {"": 2, r" ::1:\d+  ::1:\d+ ": 2}),
    "net --json --where 'is_last = 1'": (SESSIONS, {"": 15, r'"established_ns":[1-9].*"last_ack_ns":\d': 14}),
    "net --lines --where 'direction = outgoing and is_first = 1'": (SESSIONS, {"": 8, REFUSED: 1}),
    "net,dns --lines": (
        ["resolving"],  # names, and connections to what they name
        {"": 30, r"dns .* qtype=a .* name=site\d\.": 5, r" 192\.0\.2\.7:8080  direction=outgoing": 5},
    ),
    "net --mode summary": (SESSIONS, {r"127\.0\.0\.1 +80 +outgoing +3 +0 ": 1, r"127\.0\.0\.1 +9 +outgoing +1 +1 ": 1}),
    "net --lines --where 'direction = outgoing and is_first = 1 and uid = 1000'": (SESSIONS, {"": 1}),
    "block --lines": (["dd"], {r" write +\d+ +4\.00 KiB +[\d.]+ .s +[\d.]+ .s$": 7}),
    "process --lines --where 'ret = 0'": (
        PROGRAMS,
        {"": 6, r" args=true$": 3, r" args=mount --version$": 1, r" args=echo testpkg$": 1},
    ),
    "process --lines --where 'args is not null'": (PROGRAMS, {"": 7, r" ret=-2 ENOENT .* args=nonexistent$": 1}),
    "process --lines --where 'ret = 0 and uid = 1000'": (PROGRAMS, {"": 1, r" args=true$": 1}),
    "process --lines --where \"ret = 0 and filename ~ '*mount*'\"": (PROGRAMS, {"": 1, r" args=mount --version$": 1}),
    "files --lines --where 'flags is not null'": (OPENS, {r"^\S+ +open .*/nonexistent$": 2, r" path=\S+/read$": 6}),
    "files --lines --where 'flags is not null' --duration 10": (OPENS, {r" path=\S+/read$": 6}),
    "files --lines --where 'flags is not null and ret < 0'": (OPENS, {r" ret=-2 ENOENT  path=\S+/nonexistent$": 2}),
    "files --lines --where \"flags is not null and comm ~ '*ed*'\"": (OPENS, {"": 1, r" ed .* path=\S+/read$": 1}),
    "syscalls -o names=open,openat --lines --where \"args ~ '*O_WRONLY*' or args ~ '*O_RDWR*'\"": (
        OPENS,
        {r'"read", O_WRONLY\|': 1, r'"read", O_RDWR\|': 1, "O_RDONLY": 0},
    ),
    "heap --pid 4711": (["./allocs"], {r"\bleak\b": 1, r"\bhold\b": 1, "freed <": 0}),
    "heap -- ./allocs": (["./allocs"], {r"\bleak\b": 1, r"\bhold\b": 1, "freed <": 0}),
    "heap -o sample_bytes=4096 --top 5 --pid 4711": (["./allocs"], {r"\bleak\b": 1, "freed <": 0}),
}


# In a program's first milliseconds, what it has mapped is not known yet, so that stacks end at the C library.
KNOWN_S = 2.0


@pytest.mark.parametrize("command", SHOWN)
def test_a_command_shows_what_the_page_says(command: str, tmp_path: Path) -> None:
    """Its lines are those of the sessions, programs, files, requests or memory that its question is about."""
    workload, shown = SHOWN[command]
    if workload == ["./allocs"]:
        (tmp_path / "allocs.c").write_text(ALLOCS)
        subprocess.run(["gcc", "-O1", "-fno-builtin", "-o", tmp_path / "allocs", tmp_path / "allocs.c"], check=True)
    with loop_disk(tmp_path / "disk") if workload == ["dd"] else nullcontext("") as disk:
        if workload == ["dd"]:
            workload = ["dd", "if=/dev/zero", f"of={disk}", "bs=4096", "count=7", "oflag=direct", "status=none"]
        if workload == ["resolving"]:
            workload = resolving(tmp_path, "fetch", 5)
        traced = _of_pid if "--pid" in command else _of_command
        text = traced(shlex.split(command), workload, tmp_path)
    lines = [line for line in text.splitlines() if re.match(r'\d\d:\d\d:\d\d\.|{"type"', line)]
    found = {told: len(lines) if not told else len(re.findall(told, text, re.MULTILINE)) for told in shown}
    assert found == shown, text
    if "./allocs" in command:
        assert re.findall(r"\bleak <.*?  +([\d,]+)  +[\d.]+ .s ", text) == ["1,009"], text


def _of_command(words: list[str], workload: list[str], folder: Path) -> str:
    """What is printed about a command behind `--`."""
    command = [*SCOPE, "trace", *words, *([] if "--" in words else ["--", *workload])]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, text=True, cwd=folder, **pipes) as traced:
        if workload == ["./allocs"]:
            until(lambda: _runs(folder / "allocs"))
            time.sleep(KNOWN_S)
        told, said = map(str, traced.communicate("\n", timeout=240))
    assert traced.returncode == 0, said
    assert "none lost" in said
    return told


def _runs(program: Path) -> bool:
    """Whether a process has this program."""
    for process in Path("/proc").glob("[0-9]*/exe"):
        with suppress(OSError):  # it has ended, or is the kernel's
            if process.readlink() == program:
                return True
    return False


def _of_pid(words: list[str], workload: list[str], folder: Path) -> str:
    """What is printed about a process that runs already, and does its work when it is recorded."""
    rows, pipe = folder / "rows", subprocess.PIPE
    with subprocess.Popen(workload, cwd=folder, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout
        pid = str(process.pid)
        command = [*SCOPE, "trace", *(word.replace("4711", pid) for word in words), "--json", str(rows)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tracing:
            end = time.monotonic() + 120
            while not (rows.exists() and rows.stat().st_size):
                assert tracing.poll() is None and time.monotonic() < end
                time.sleep(0.1)
            process.stdin.write("\n")
            process.stdin.flush()
            process.stdout.readline()
            tracing.send_signal(signal.SIGINT)
            text, _ = tracing.communicate(timeout=240)
    assert tracing.returncode == 0
    return text.replace(f" {pid} ", " 4711 ")


def test_every_command_of_the_page_is_tried() -> None:
    """The page has no other commands."""
    assert SHOWN.keys() == COMMANDS
