"""A database over TCP that goes silent: nothing more comes, and nobody is told."""

import json
import subprocess
import sys
import tempfile

TCP_WAITS_S = 15 * 60  # before it gives up by itself


def test_a_request_does_not_wait_until_tcp_gives_up() -> None:
    """It is told that the database cannot be reached. When the network is back, requests work at once."""
    with tempfile.TemporaryDirectory(prefix="scope", dir="/dev/shm") as folder:
        script = [sys.executable, "-m", "tests.integration.server.silent_script", folder]
        ran = subprocess.run(["unshare", "--net", *script], capture_output=True, text=True, timeout=400)
    assert ran.returncode == 0, ran.stderr[-12000:]
    seen = json.loads(ran.stdout)
    assert seen["before"] == [201, None]
    status, said = seen["meanwhile"]
    assert status == 503
    assert said.startswith("the database cannot be reached: ")
    assert seen["seconds"] < TCP_WAITS_S / 3
    assert seen["after"] == [201, None]
