"""The agent as a whole."""

import subprocess
import sys


def test_an_idle_agent_does_without_what_only_recording_takes() -> None:
    """An idle agent imports neither numpy nor Arrow: they would be half of its memory."""
    program = "import sys, scope_agentd.app; print({'numpy', 'pyarrow'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
