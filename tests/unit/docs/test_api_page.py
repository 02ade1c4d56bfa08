"""docs/api.md is the page that `make docs` writes."""

import runpy
from pathlib import Path

from scope_server.api.table import TABLE

ROOT = Path(__file__).parents[3]


def test_the_page_is_as_generated() -> None:
    """The committed page equals the generated one, and has all routes; `make docs` mends a difference."""
    page = (ROOT / "docs" / "api.md").read_text()
    assert page == runpy.run_path(str(ROOT / "tools" / "generate_api_page.py"))["page"]()
    for route in TABLE:
        assert f"\n## {route.method} {route.path}\n" in page
