"""docs/settings.md is the page that `make docs` writes."""

import runpy
from pathlib import Path

from scope_cli.configuration.daemons import DAEMONS
from scope_cli.configuration.keys import keys

ROOT = Path(__file__).parents[3]


def test_the_page_is_as_generated() -> None:
    """The committed page equals the generated one, and has all settings; `make docs` mends a difference."""
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page == runpy.run_path(str(ROOT / "tools" / "generate_settings_page.py"))["page"]()
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert rows == [name for daemon in DAEMONS.values() for name in keys(daemon)]
