"""The wheel runs without clang and libbpf on the host: it contains its BPF objects and libraries."""

import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(900)  # the first test builds and installs

# Runs in its own mount namespace: the host does not change.
HIDDEN = """\
set -eu
for directory in /usr/include/bpf /usr/lib/llvm-*; do
    [ ! -d "$directory" ] || mount -t tmpfs none "$directory"
done
for library in /usr/lib/*/libbpf.* /usr/lib/*/libelf[.-]*; do
    [ ! -f "$library" ] || mount --bind /dev/null "$library"
done
exec "$@"
"""


def newest() -> str:
    """The newest Python of this machine: most other tests run in the oldest one that the wheel serves."""
    pythons: dict[tuple[int, ...], str] = {sys.version_info[:3]: sys.executable}
    for python in (Path.home() / ".pyenv/versions").glob("3.*/bin/python3"):
        pythons[tuple(map(int, python.parts[-3].split(".")))] = str(python)
    return pythons[max(pythons)]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The newest Python, in an empty venv into which the wheel was installed."""
    made = subprocess.run(["make", "wheel"], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    (wheel,) = (ROOT / "dist").glob("*.whl")
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run([newest(), "-m", "venv", venv], check=True)
    # Most modules are never imported here, and compiling them all takes most of an installation.
    pip: list[str | Path] = [venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    subprocess.run([*pip, "--constraint", ROOT / "requirements.lock", wheel], check=True)
    return venv / "bin/python"


def hidden(*command: object) -> subprocess.CompletedProcess[str]:
    """Runs a command where clang, libbpf and libelf are hidden."""
    words = ["unshare", "--mount", "sh", "-c", HIDDEN, "hide", *map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, cwd="/")


@pytest.mark.usefixtures("python")
def test_the_wheel_serves_every_python_from_3_11() -> None:
    """One wheel has the tags cp311-abi3 and manylinux, and contains libbpf, libelf and libz."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    assert "-cp311-abi3-manylinux_" in wheel.name
    with zipfile.ZipFile(wheel) as files:
        bundled = {Path(name).name.partition("-")[0] for name in files.namelist() if ".libs/lib" in name}
    assert bundled == {"libbpf", "libelf", "libz"}


def test_clang_and_libbpf_are_hidden(python: Path) -> None:
    """`hidden` really hides clang and the host's libbpf. The next tests depend on this."""
    assert hidden("clang", "--version").returncode != 0
    loads = hidden(python, "-c", "import ctypes; ctypes.CDLL('libbpf.so.1')")
    assert loads.returncode != 0
    extension = ROOT / "src/scope_bpf/binding" / f"_native.abi3{sysconfig.get_config_var('SHLIB_SUFFIX')}"
    unbundled = hidden(python, "-c", f"import ctypes; ctypes.CDLL({str(extension)!r})")
    assert "libbpf" in unbundled.stderr, "the extension of the checkout needs the host's libbpf"


def test_it_records_there(python: Path) -> None:
    """Every probe is available or lacks only its device, and `process` records."""
    doctor = hidden(python.with_name("scope"), "doctor", "--json")
    assert doctor.returncode == 0, doctor.stderr
    assert all(finding["available"] or finding["no_device"] for finding in json.loads(doctor.stdout)["probes"])
    traced = hidden(python.with_name("scope"), "trace", "process", "--json", "--", "true")
    assert traced.returncode == 0, traced.stderr
    execs = [row for row in map(json.loads, traced.stdout.splitlines()) if row.get("type") == "exec"]
    assert [row["args"] for row in execs] == [["true"]]


def test_it_brings_the_server_along(python: Path) -> None:
    """The wheel contains migrations, queries and the generated gRPC stubs."""
    script = (
        "from importlib import resources\n"
        "import scope_server.app, scope_agentd.app, scope_proto.scope.v1.control_pb2_grpc\n"
        "store = resources.files('scope_server') / 'store'\n"
        "print((store / 'reading' / 'queries.sql').is_file())\n"
        "print(len(list((store / 'schema' / 'migrations').iterdir())) > 0)\n"
    )
    ran = hidden(python, "-c", script)
    assert ran.stdout.split() == ["True", "True"], ran.stderr


def test_it_installs_services(python: Path, tmp_path: Path) -> None:
    """The wheel contains the units; those that it writes run its own `scope`."""
    for daemon in ("agentd", "server"):
        installed = hidden(python.with_name("scope"), "install", daemon, "--root", tmp_path)
        assert installed.returncode == 0, installed.stderr
        unit = (tmp_path / f"etc/systemd/system/scope-{daemon}.service").read_text()
        assert f"\nExecStart={python.with_name('scope')} {daemon} --config /etc/scope/{daemon}.toml\n" in unit
