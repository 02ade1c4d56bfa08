"""The previous release, built from git's history into tests/.cache, to run beside today's version.

Until the first release, a commit stands for it: the last one that changed on purpose what agent and server say to each
other. A change that older agents or servers cannot follow names its own commit here, and CHANGELOG.md says so.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

COMMIT = "3b2c8bd"  # agents describe their streams from here on
ROOT = Path(__file__).parents[1]
CACHE = ROOT / "tests" / ".cache"
_BUILD_S = 600


def lacking() -> str:
    """Why there is no previous release; empty if git's history here has it."""
    if _commit():
        return ""
    return f"git's history here lacks {COMMIT}, the previous release; fetch the whole history"


def previous_release() -> Path:
    """The folder of the previous release's packages. Skips the test if git's history here lacks its commit."""
    if reason := lacking():
        pytest.skip(reason)
    folder = CACHE / f"release-{_commit()}"
    if not folder.exists():
        _build(_commit(), folder)
    return folder / "src"


def _commit() -> str:
    asked = ["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", f"{COMMIT}^{{commit}}"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""


def _build(commit: str, folder: Path) -> None:
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        tree = Path(scratch) / "tree"
        tree.mkdir()
        archive = subprocess.run(["git", "-C", ROOT, "archive", commit], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", tree], input=archive, check=True)
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        made = f"PYTHON={sys.executable}"
        for command in (
            ["make", made, "objects", "hold", "stubs"],
            [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
            ["make", made, "catalogue"],
        ):
            ran = subprocess.run(
                command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=_BUILD_S
            )
            assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
        shutil.move(tree, folder)
