"""Agent and server do not import each other, shared packages import neither, and scope_bpf has layers."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
FORBIDDEN = {
    "scope_agentd": {"scope_server", "scope_cli"},
    "scope_server": {"scope_agentd", "scope_cli", "scope_bpf"},
    "scope_bpf": {"scope_agentd", "scope_server", "scope_cli", "scope_views", "scope_wire", "scope_proto"},
    "scope_wire": {"scope_agentd", "scope_server", "scope_cli", "scope_bpf", "scope_catalogue", "scope_views"},
    "scope_catalogue": {
        "scope_agentd",
        "scope_server",
        "scope_cli",
        "scope_bpf",
        "scope_views",
        "scope_wire",
        "scope_proto",
    },
    "scope_views": {"scope_agentd", "scope_server", "scope_cli", "scope_bpf", "scope_wire"},
}
# What of the command line works on this machine's kernel, or with the modules that do; the rest needs no BPF object.
LOCAL = ("trace", "tail", *(f"commands/{name}.py" for name in ("trace", "tail", "doctor", "agentd", "up")))


# The layers of scope_bpf, lowest first: each imports only the layers before it.
LAYERS = ("errors", "host", "containers", "cgroups", "layout", "catalogue", "binding", "code", "capture")


def _modules(file: Path) -> set[str]:
    """The modules that a file imports, at its top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


def _imported(file: Path) -> set[str]:
    """The packages that a file imports."""
    return {module.partition(".")[0] for module in _modules(file)}


def _layer(path: str) -> str:
    """The layer of a scope_bpf module: `code` for `scope_bpf.code.elf`."""
    return path.split(".")[1]


@pytest.mark.parametrize("package", FORBIDDEN)
def test_packages_keep_apart(package: str) -> None:
    """Only scope_cli, which starts them, may import both the agent and the server. Views know the catalogue alone."""
    files = list((SRC / package).rglob("*.py"))
    assert len(files) > 5
    breaches = {str(file.relative_to(SRC)): named for file in files if (named := _imported(file) & FORBIDDEN[package])}
    assert breaches == {}


def test_commands_that_ask_a_server_need_no_probe() -> None:
    """Only the commands that trace or look at this machine import scope_bpf; the others read the catalogue's data."""
    place = SRC / "scope_cli"
    files = [file for file in place.rglob("*.py") if not str(file.relative_to(place)).startswith(LOCAL)]
    assert len(files) > 40
    assert [str(file) for file in files if "scope_bpf" in _imported(file)] == []


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_of_capture_know_only_those_below(layer: str) -> None:
    """No layer of scope_bpf imports a higher layer or a probe."""
    forbidden = {*LAYERS[LAYERS.index(layer) + 1 :], "probes"}
    place = SRC / "scope_bpf" / layer
    files = list(place.rglob("*.py")) or [place.with_suffix(".py")]
    assert all(file.exists() for file in files)
    breaches = {}
    for file in files:
        named = {module for module in _modules(file) if module.startswith("scope_bpf.") and _layer(module) in forbidden}
        if named:
            breaches[str(file.relative_to(SRC))] = named
    assert breaches == {}


def test_only_the_binding_imports_the_extension() -> None:
    """Only scope_bpf.binding imports the extension; all other code uses its typed functions and classes."""
    files = [file for file in SRC.rglob("*.py") if "binding" not in file.parts]
    extension = {"scope_bpf.binding.ffi", "scope_bpf.binding._native"}
    assert [str(file) for file in files if _modules(file) & extension] == []
