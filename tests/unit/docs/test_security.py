"""SECURITY.md says of the tree what is true."""

import re
import stat
from pathlib import Path

from scope_cli.installation import api_socket
from scope_server.api.table import TABLE
from scope_wire.unix_socket import listening

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "SECURITY.md").read_text()


def test_routes_without_a_login() -> None:
    """The page names exactly the routes that ask for no login."""
    assert set(re.findall(r"`(/api/[^`]*)`", PAGE)) == {route.path for route in TABLE if route.role is None}


def test_the_file_that_guards_the_api(tmp_path: Path) -> None:
    """The page names the server's socket with its mode, and no other file of the state directory."""
    listening(path := api_socket(tmp_path)).close()
    named = re.findall(r"(\S+)\s+in\s+the\s+state\s+directory\W+mode\s+(\d+)", PAGE)
    assert named == [(f"`{path.name}`", f"{stat.S_IMODE(path.stat().st_mode):04o}")]


def test_capabilities_of_the_services() -> None:
    """The agent's unit lists as many capabilities as the page says; the server's lists none."""
    units = ROOT / "deploy" / "systemd"
    agent, server = ((units / f"scope-{name}.service").read_text() for name in ("agentd", "server"))
    (bounding,) = re.findall(r"(?m)^CapabilityBoundingSet=(.*)$", agent)
    assert len(bounding.split()) == 7 and "the seven capabilities" in PAGE
    assert re.findall(r"(?m)^CapabilityBoundingSet=(.*)$", server) == [""]
