"""README.md is true to the letter: its commands run, against a `scope up` of the test's own."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import Up

ROOT = Path(__file__).parents[2]
STAND_INS = Path(__file__).with_name("stand_ins")
BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if not line.startswith("make ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_works(up: Up, command: str) -> None:
    """Each command succeeds and says something; only places and ports are the test's own."""
    environment = dict(up.environment)
    if not shutil.which("grpcurl"):  # Debian has no package of it
        environment["PATH"] = f"{STAND_INS}:{Path(sys.executable).parent}:{environment['PATH']}"
    adapted = (
        command.replace("/var/lib/scope", str(up.state))
        .replace("127.0.0.1:8470", up.http)
        .replace("127.0.0.1:8472", up.control)
    )
    ran = subprocess.run(adapted, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout


def test_targets_of_make_exist() -> None:
    """Every `make TARGET` in the README and in CONTRIBUTING is one of the Makefile's."""
    text = (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"`?make ([a-z]+)`?", text)) - {"a", "sure"}:
        assert re.search(rf"(?m)^{target}:", makefile), target
