"""Probes have the same layouts on every architecture in bpf/vmlinux."""

import fcntl
import platform
import subprocess
from pathlib import Path

import pytest

from scope_bpf.catalogue.probe import OBJECTS
from scope_bpf.layout.btf import Btf, Struct
from scope_bpf.probes import probes

ROOT = Path(__file__).parents[3]
ARCHITECTURES = sorted(path.parent.name for path in (ROOT / "bpf/vmlinux").glob("*/vmlinux.h"))


@pytest.fixture(scope="module")
def built() -> dict[str, Path]:
    """The folder with the objects of each architecture; those of others than this host's are built, and kept."""
    folders = {"arm64" if platform.machine() == "aarch64" else "x86": OBJECTS}
    for architecture in set(ARCHITECTURES) - set(folders):
        folder = ROOT / "build" / "architectures" / architecture
        folder.mkdir(parents=True, exist_ok=True)
        command = ["make", "--jobs=2", "objects", f"ARCH={architecture}"]
        with (folder / "lock").open("w") as lock:  # of another session in this clone
            fcntl.flock(lock, fcntl.LOCK_EX)
            for name in ("bpf", "Makefile"):
                if not (folder / name).is_symlink():
                    (folder / name).symlink_to(ROOT / name)
            made = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        folders[architecture] = folder / "src/scope_bpf/objects"
    return folders


def _events(folder: Path, probe: str) -> dict[str, Struct | None]:
    btf = Btf((folder / f"{probe}.bpf.o").read_bytes())
    names = (f"{stream.name}_{part}" for stream in probes()[probe].streams for part in ("event", "key", "value"))
    return {name: btf.struct(name) for name in names}


@pytest.mark.parametrize("probe", [name for name, probe in probes().items() if not probe.sampler])
def test_layouts_are_the_same_everywhere(built: dict[str, Path], probe: str) -> None:
    """All architectures have the same structs: an agent and a server on different ones agree on the columns."""
    assert set(ARCHITECTURES) == {"x86", "arm64"}
    first, *others = (_events(folder, probe) for folder in built.values())
    assert any(first.values())
    assert all(other == first for other in others)
