"""The agent as a whole."""

import subprocess
import sys


def test_an_idle_agent_does_without_what_only_recording_takes() -> None:
    """numpy and Arrow are half of what an agent that waits would hold in memory."""
    program = "import sys, scope_agentd.app; print({'numpy', 'pyarrow', 'elftools'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
