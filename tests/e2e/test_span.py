"""Functions that a user declares, from the command line or the API to the database."""

import re
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.e2e.conftest import SCOPE, Up, until

from scope_cli.errors import CommandError

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
static volatile long sum;
__attribute__((noinline)) long add(int number, const char *text) { sum += number; return sum; }
int main(void) {
    char text[16];
    getchar();
    for (int i = 0; i < 103; i++) { snprintf(text, sizeof(text), "n%d", i); add(i, text); }
    getchar();
    return 0;
}
"""
WORDS = ("adds:add n=arg0:i32 text=arg1:str sum=ret:i64",)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Adds 0 to 102 when it gets a line, and ends at the next one."""
    folder = tmp_path_factory.mktemp("adds")
    (folder / "adds.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-o", folder / "adds", folder / "adds.c"], check=True)
    return folder / "adds"


def test_words_declare_functions(program: Path) -> None:
    """`scope trace span` takes declarations as words, before options and after them; its table is by function."""
    command = [*SCOPE, "trace", "span", *WORDS, "--mode", "summary", "adds:main", "--", str(program)]
    traced = subprocess.run(command, input="\n\n", capture_output=True, text=True)
    assert (traced.returncode, traced.stderr.splitlines()[-1][:7]) == (0, "2 rows ")
    counts = {line.split()[1]: line.split()[2] for line in traced.stdout.splitlines() if line.startswith("adds")}
    assert counts == {"add": "103", "main": "1"}


def test_a_flame_graph_shows_the_callers(program: Path, tmp_path: Path) -> None:
    """With stacks, `--flamegraph` and `--folded` have each function on its callers, as often as it was called."""
    drawn, folded = tmp_path / "calls.svg", tmp_path / "calls.txt"
    outputs = ["-o", "stacks=true", "--flamegraph", str(drawn), "--folded", str(folded)]
    command = [*SCOPE, "trace", "span", *WORDS, *outputs, "--", str(program)]
    traced = subprocess.run(command, input="\n\n", capture_output=True, text=True)
    assert traced.returncode == 0, traced.stderr
    stacks = [line.rpartition(" ") for line in folded.read_text().splitlines()]
    assert all(stack.startswith("adds;") and stack.endswith(";main;add") for stack, _, _ in stacks)
    assert sum(int(calls) for _, _, calls in stacks) == 103
    widths = Counter[str]()  # callers before main may differ: it may not be known yet how to unwind the program
    for title in ET.parse(drawn).iter("{http://www.w3.org/2000/svg}title"):
        name, calls = re.findall(r"\A(.*)\ninclusive: (\d+)", title.text or "")[0]
        widths[name] += int(calls)
    assert [widths[name] for name in ("all", "adds", "main", "add")] == [103] * 4


def test_a_task_stores_calls_with_their_arguments(up: Up, program: Path) -> None:
    """Every call is in the database with its arguments and result, and found by filters."""
    with subprocess.Popen([program], stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin
        started = up.scope("start", "local", "span", *WORDS, "--pid", str(process.pid))
        task = started.stdout.strip()
        assert started.returncode == 0, started.stderr
        process.stdin.write("\n")
        process.stdin.flush()
        until(lambda: up.client.get("tasks", task)["streams"][:1] and _stored(up, task) == 103)
        assert up.scope("stop", task).returncode == 0
        process.stdin.write("\n")
    options = up.client.get("tasks", task)["options"]
    assert options == {"functions": list(WORDS)}
    (row,) = up.client.get("events", "span", where=f"pid = {process.pid} and text = 'n17'")["events"]
    assert (row["function"], row["file"], row["args"]) == ("add", str(program), f"n=17 sum={sum(range(18))}")
    with psycopg.connect(host=str(up.state / "postgres"), user="scope", dbname="scope") as connection:
        query = "SELECT count(*), sum(duration_ns) > 0 FROM scope.span WHERE function = 'add' AND pid = %s"
        assert connection.execute(query, [process.pid]).fetchone() == (103, True)


def _stored(up: Up, task: str) -> int:
    (stream,) = (one for one in up.client.get("tasks", task)["streams"] if one["stream"] == "span")
    stored: int = stream["stored"]
    return stored


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "option 'functions' is missing"),
        ({"functions": []}, "the list is empty"),
        ({"functions": 7}, "option 'functions': 7 is not a list of texts"),
        ({"functions": ["libc:malloc", 7]}, "is not a list of texts"),
        ({"functions": ["libc:malloc size=arg1:u46"]}, "column 23: no type 'u46' (did you mean 'u64'"),
    ],
)
def test_the_api_refuses_what_declares_nothing(up: Up, options: dict[str, Any], said: str) -> None:
    """A wrong declaration is refused by the API, which names what is wrong and where."""
    with pytest.raises(CommandError) as refused:
        up.client.post("tasks", body={"probe": "span", "options": options})
    assert said in str(refused.value)


def test_a_function_that_is_not_there(up: Up, program: Path) -> None:
    """A task for a function that the process's file lacks is refused, with the nearest name."""
    with subprocess.Popen([program], stdin=subprocess.PIPE, text=True) as process:
        started = up.scope("start", "local", "span", "adds:ad", "--pid", str(process.pid))
        assert (started.returncode, started.stdout) == (2, "")
        assert "there is no function 'ad' (did you mean 'add'" in started.stderr
        process.communicate("\n\n")
