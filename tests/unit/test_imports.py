"""Who may import whom: agent and server meet over the wire, and what both use knows neither."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
FORBIDDEN = {
    "scope_agentd": {"scope_server", "scope_cli"},
    "scope_server": {"scope_agentd", "scope_cli"},
    "scope_bpf": {"scope_agentd", "scope_server", "scope_cli", "scope_wire", "scope_proto"},
    "scope_wire": {"scope_agentd", "scope_server", "scope_cli", "scope_bpf"},
}


def _imported(file: Path) -> set[str]:
    """The packages that a file imports, at its top or anywhere below."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("package", FORBIDDEN)
def test_packages_keep_apart(package: str) -> None:
    """Only the command line, which starts them, knows both agent and server."""
    files = list((SRC / package).rglob("*.py"))
    assert len(files) > 5
    breaches = {str(file.relative_to(SRC)): named for file in files if (named := _imported(file) & FORBIDDEN[package])}
    assert breaches == {}
