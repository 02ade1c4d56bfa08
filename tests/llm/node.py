"""node-llama-cpp from npm, which carries llama.cpp's own builds."""

import fcntl
import hashlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
PACKAGES = ("package.json", "package-lock.json")
TIMEOUT_S = 300
CUDA = "@node-llama-cpp/linux-x64-cuda@3.22.1"


def node_folder(cache: Path) -> Path:
    """A folder with generate.mjs and the packages that it needs, installed once per version of these files.

    Not by `npm ci`: some registries leave packages for other systems out, which it takes for a wrong lock file.
    """
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in (*PACKAGES, "generate.mjs"))).hexdigest()
    folder = cache / f"node-{digest[:16]}"
    with _alone_in(folder):
        if not (folder / "installed").exists():
            for name in (*PACKAGES, "generate.mjs"):
                shutil.copy(HERE / name, folder)
            _npm(folder, "install", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund")
            (folder / "installed").touch()
    return folder


def cuda_backend(cache: Path) -> Path:
    """llama.cpp's libggml-cuda.so, downloaded once: 143 MB. It is only to be read, since it needs libraries of CUDA."""
    folder = cache / "node-cuda-3.22.1"
    found = folder / "package/bins/linux-x64-cuda/libggml-cuda.so"
    with _alone_in(folder):
        if not (folder / "unpacked").exists():
            _npm(folder, "pack", "--silent", CUDA)
            (packed,) = folder.glob("*.tgz")
            subprocess.run(["tar", "-xzf", packed, str(found.relative_to(folder))], cwd=folder, check=True)
            packed.unlink()
            (folder / "unpacked").touch()
    return found


def _npm(folder: Path, *arguments: str) -> None:
    """Runs npm in a folder; again if the registry failed, which may pass."""
    for left in reversed(range(3)):
        ended = subprocess.run(["npm", *arguments], cwd=folder, check=not left, timeout=TIMEOUT_S)
        if not ended.returncode:
            return
        time.sleep(5)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Makes a folder; other workers wait until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
