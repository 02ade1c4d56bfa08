"""CONTRIBUTING.md is true to the letter: its example probe is built as it says, and runs."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_example_probe_needs_new_files_only(tmp_path: Path) -> None:
    """The three files of the example, in a copy of the tree, make a probe that `scope trace` runs."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    header, program = re.findall(r"```c\n(.*?)```", text, re.DOTALL)
    (module,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for part in ("bpf", "src", "Makefile"):
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, tmp_path / part)
    folder = tmp_path / "bpf" / "probes" / "reaps"
    folder.mkdir()
    (folder / "reaps.h").write_text(_dedented(header))
    (folder / "reaps.bpf.c").write_text(_dedented(program))
    (tmp_path / "src" / "scope_bpf" / "probes" / "reaps.py").write_text(_dedented(module))
    subprocess.run(["make", "objects"], cwd=tmp_path, check=True, capture_output=True)
    traced = subprocess.run(
        [sys.executable, "-m", "scope_cli.main", "trace", "reaps", "--json", "--", "sh", "-c", "true & ls /; wait"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in traced.stdout.splitlines() if line.startswith("{")]
    assert rows
    assert {row["stream"] for row in rows} == {"reap"}
    assert {row["comm"] for row in rows} == {"sh"}


def _dedented(block: str) -> str:
    return re.sub(r"(?m)^   ", "", block)
