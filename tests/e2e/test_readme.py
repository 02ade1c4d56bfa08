"""The commands in README.md, and on the pages of docs/ that it leads to, run against the test's own `scope up`."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import Up
from tests.grpcurl import grpcurl

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/start.md", "docs/trace.md", "docs/fleet.md", "docs/services.md")
BLOCKS = [block for page in PAGES for block in re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)]
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if not line.startswith("make ")]


@pytest.fixture(scope="module", autouse=True)
def some_processes() -> Iterator[None]:
    """Starts a process twenty times a second: commands that watch the whole machine for a second have rows to show."""
    shell = subprocess.Popen(["sh", "-c", "while sleep 0.05; do :; done"])
    yield
    shell.kill()
    shell.wait()


@pytest.fixture(scope="module", autouse=True)
def tasks_end(up: Up) -> Iterator[None]:
    """Stops the tasks that the pages start: other tests use the same `scope up`."""
    before = {task["task_id"] for task in up.client.get("tasks", state="active")["tasks"]}
    yield
    for task in up.client.get("tasks", state="active")["tasks"]:
        if task["task_id"] not in before:
            up.client.post("tasks", task["task_id"], "stop")


@pytest.mark.parametrize("command", dict.fromkeys(COMMANDS))
def test_a_command_of_a_page_works(up: Up, command: str, tmp_path: Path) -> None:
    """Each command succeeds and prints something, or writes a file. The test replaces only paths and ports."""
    environment = dict(up.environment)
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    if command.startswith("grpcurl"):
        environment["PATH"] = f"{grpcurl().parent}:{environment['PATH']}"
    adapted = (
        command.replace("/var/lib/scope", str(up.state))
        .replace("127.0.0.1:8470", up.http)
        .replace("127.0.0.1:8472", up.control)
    )
    adapted = re.sub(r"(?<= )(exec\.parquet|trace\.perfetto)\b", rf"{tmp_path}/\1", adapted)
    ran = subprocess.run(adapted, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout or any(file.stat().st_size for file in tmp_path.iterdir())


def test_targets_of_make_exist() -> None:
    """Every `make TARGET` in README and CONTRIBUTING exists in the Makefile."""
    text = (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"`?make ([a-z]+)`?", text)) - {"a", "sure"}:
        assert re.search(rf"(?m)^{target}:", makefile), target
