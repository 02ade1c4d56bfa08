"""Runs in a booted systemd that has a link to a server elsewhere, see test_installed_agent.py: installs the agent, and
runs it as a service, while the test cuts the link. Prints what it saw as JSON."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.e2e.in_booted import SCOPE, journal, run, shown, until

seen: dict[str, Any] = {}


def meet(step: str) -> None:
    """Tells the test that a step is done, and waits for its part."""
    Path(f"/test/{step}.here").touch()
    until(f"the test's part of {step}", lambda: Path(f"/test/{step}.there").exists())


os.environ["SCOPE_JOIN_TOKEN"] = Path("/test/token").read_text()
run(SCOPE, "install", "agentd", "--join", "10.77.0.1:8474")
drop_in = Path("/etc/systemd/system/scope-agentd.service.d/test.conf")
drop_in.parent.mkdir()
drop_in.write_text("[Service]\nWatchdogSec=10\n")
run("systemctl", "daemon-reload")
meet("joined")
run("systemctl", "start", "scope-agentd")
seen["without a network"] = shown("scope-agentd", "ActiveState", "SubState", "NRestarts")
meet("started")
(pid,) = shown("scope-agentd", "MainPID")
os.kill(int(pid), 19)  # a stopped process gives no sign of life, as one with a stuck event loop
until(
    "another process", lambda: shown("scope-agentd", "MainPID", "SubState") not in ([pid, "running"], ["0", "running"])
)
until("the watchdog", lambda: shown("scope-agentd", "SubState") == ["running"] and "Watchdog timeout" in journal())
seen["after the watchdog"] = shown("scope-agentd", "MainPID") != [pid]
meet("restarted")
run("systemctl", "stop", "scope-agentd")
seen["stopped"] = shown("scope-agentd", "ActiveState", "Result")
print(json.dumps(seen))
sys.stdout.flush()
