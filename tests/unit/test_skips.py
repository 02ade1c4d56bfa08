"""A test may skip only what `scope doctor` says is missing: the run fails otherwise."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MASKED = "from scope_bpf import host\nhost.TRACEFS = host.Path('/nowhere')\n"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("pytest.skip('not in the mood')", 1),
        ("need('kernel BTF')", 0),
        ("need('tracefs')", 0),
    ],
    ids=["unexplained", "there", "explained"],
)
def test_a_skip_has_to_be_explained(tmp_path: Path, body: str, status: int) -> None:
    """On a host without tracefs, a skip for that reason passes; a skip for any other reason fails the run."""
    written = tmp_path / "test_written.py"
    written.write_text(f"import pytest\n{MASKED}\ndef test_written(need):\n    {body}\n")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.conftest",
        "--rootdir",
        ROOT,
        written,
    ]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == status, ran.stdout
    assert ("not in the mood" in ran.stdout.partition("doctor")[2]) == bool(status)
