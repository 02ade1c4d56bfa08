"""README.md is true to the letter: its commands run, against a `scope up` of the test's own."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.e2e.conftest import Up

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if not line.startswith("make ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_works(up: Up, command: str) -> None:
    """Each command succeeds and says something; only places and ports are the test's own."""
    program = command.split(maxsplit=1)[0]
    if shutil.which(program, path=None if "/" not in program else str(ROOT)) is None and not (ROOT / program).exists():
        pytest.skip(f"{program} is not on this host")
    adapted = command.replace("/var/lib/scope", str(up.state)).replace("127.0.0.1:8470", up.http)
    ran = subprocess.run(adapted, shell=True, cwd=ROOT, env=up.environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout


def test_targets_of_make_exist() -> None:
    """Every `make TARGET` in the README and in CONTRIBUTING is one of the Makefile's."""
    text = (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"`?make ([a-z]+)`?", text)) - {"a", "sure"}:
        assert re.search(rf"(?m)^{target}:", makefile), target
