"""The pages in docs/probes/ are those that `make docs` writes."""

import subprocess
import sys
from pathlib import Path

import pytest

from scope_bpf.probes import probe_named, probes

FOLDER = Path(__file__).parents[3] / "docs" / "probes"


def test_the_pages_are_as_generated(tmp_path: Path) -> None:
    """The committed pages equal the generated ones; `make docs` mends a difference."""
    (tmp_path / "gone.md").write_text("of a probe that is gone")
    subprocess.run([sys.executable, FOLDER / "generate.py", tmp_path], check=True)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    assert made.keys() == {"README.md", *(f"{name}.md" for name in probes())}


@pytest.mark.parametrize("name", probes())
def test_a_probe_is_explained(name: str) -> None:
    """Each probe has examples, notes and limits; an example records with the probe."""
    guide = probe_named(name).guide
    assert guide.notes
    assert guide.limits
    assert guide.examples
    assert all(name in example.command.split()[2].split(",") for example in guide.examples)
