"""The calls of the API that `make client` writes."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_client_has_the_routes() -> None:
    """The module is what `make client` writes now."""
    written = runpy.run_path(str(ROOT / "tools" / "generate_client.py"))["module"]()
    assert (ROOT / "src" / "scope_cli" / "api.py").read_text() == written
