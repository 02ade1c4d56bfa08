"""What `scope install server --redis URL --nginx NAME` sets up, in namespaces: see installed_script.py."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

FIRST, SECOND = 1009, 503  # calls of the watched program
NAMESPACES = ("unshare", "--mount", "--net", "--fork", "--kill-child")


@pytest.fixture(scope="module")
def seen() -> Any:
    """What the script saw."""
    script = Path(__file__).with_name("installed_script.py")
    with tempfile.TemporaryDirectory(prefix="scope", dir="/dev/shm") as folder:  # overlays need a plain file system
        words: list[str | Path] = [*NAMESPACES, sys.executable, script, folder, str(FIRST), str(SECOND)]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=570)
    assert ran.returncode == 0, ran.stderr[-12000:]
    return json.loads(ran.stdout)


@pytest.mark.timeout(600)
def test_people_and_agents_come_through_nginx(seen: Any) -> None:
    """Three agents have joined and are connected through nginx; each recorded all calls of the watched program."""
    assert seen["health"] == {"healthy": True}
    assert sorted(seen["first"].values()) == [FIRST] * 3


def test_after_the_end_of_a_server_the_other_goes_on(seen: Any) -> None:
    """Its agents come to the other one, and nothing is lost: what was emitted is stored, whoever wrote it."""
    assert sorted(seen["second"].values()) == [FIRST + SECOND] * 3
    assert [stream for stream, emitted, _, _ in seen["books"] if emitted] == ["syscall"] * 3
    for stream, emitted, stored, lost in seen["books"]:
        assert (emitted, lost) == (stored, []), stream
