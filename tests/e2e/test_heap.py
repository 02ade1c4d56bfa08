"""A heap that leaks, from the program to `scope leaks` and to the flame graph of the console."""

import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import Up, until

LEAKING = """
#include <stdio.h>
#include <stdlib.h>
#pragma GCC optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")
#define NAMED __attribute__((noinline, noclone)) void
static void *volatile kept;
NAMED leak(void) { for (int i = 0; i < 101; i++) kept = malloc(307); }
NAMED hold(void) { kept = malloc(5003); }
NAMED freed(void) { for (int i = 0; i < 1009; i++) { kept = malloc(i); free(kept); } }
NAMED work(void) { leak(); hold(); freed(); }
int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	getchar();
	work();
	puts("done");
	while (getchar() != EOF) {}
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heap")
    (folder / "leaking.c").write_text(LEAKING)
    subprocess.run(["gcc", "-O1", "-fno-builtin", "-o", folder / "leaking", folder / "leaking.c"], check=True)
    return folder / "leaking"


def test_leaks_of_a_running_program(up: Up, program: Path) -> None:
    """`scope leaks` has each function that leaks, with its blocks and bytes, and so has the flame graph; what is freed
    is in neither. Once the program has ended, its memory is free."""
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        task = up.scope("start", "local", "heap", "--pid", str(process.pid)).stdout.strip()
        until(lambda: up.client.get("tasks", task)["state"] == "running")
        process.stdin.write("x")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        until(lambda: len(_held(up, process.pid)) == 2)
        said = up.scope("leaks", "--pid", str(process.pid)).stdout
        leaks = json.loads(up.scope("leaks", "--pid", str(process.pid), "--json").stdout)
        flames = [_folded(up, process.pid)]
        process.stdin.close()
        process.wait()
    until(lambda: all(leak["ended"] for leak in _held(up, process.pid)))
    flames.append(_folded(up, process.pid))
    assert [(leak["live_bytes"], leak["live_count"], leak["ended"]) for leak in leaks] == [
        (101 * 307, 101, False),
        (5003, 1, False),
    ]
    assert [leak["stack"].rpartition("main;")[2] for leak in leaks] == ["work;leak", "work;hold"]
    assert f"leaking ({process.pid}): 30.28 KiB heap in 101 allocations" in said
    assert "    leak\n    work\n    main\n" in said
    for flame in flames:
        assert flame == {"work;leak": 101 * 307, "work;hold": 5003}
    assert up.scope("stop", task).returncode == 0


def _held(up: Up, pid: int) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = up.client.get("states", "heap_live", pid=pid)["groups"]
    return [group for group in groups if group["live_count"]]


def _folded(up: Up, pid: int) -> dict[str, int]:
    """The flame graph of the program's rows: how many bytes, by the frames below main."""
    text = io.BytesIO()
    up.client.save(text, "flamegraph", "heap_live", where=f"pid = {pid}", format="folded")
    lines = text.getvalue().decode().splitlines()
    return {stack.rpartition("main;")[2]: int(weight) for stack, _, weight in (line.rpartition(" ") for line in lines)}
