"""Containers for tests: of Debian's runc or crun, with BusyBox as the only program in them."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

CACHE = Path(__file__).parent / ".cache"
IMAGE = "docker.io/library/busybox:1"
CALLS = 13  # of a program by `SCRIPT`, each an exec
SCRIPT = f"i=0; while [ $i -lt {CALLS} ]; do /bin/busybox true; i=$((i + 1)); done"


def runc() -> Path:
    """Debian's runc, downloaded once; nothing is installed."""
    unpacked = CACHE / "runc"
    if not unpacked.exists():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            download = ["apt-get", "download", "--quiet", "-o", "APT::Sandbox::User=root", "runc"]
            subprocess.run(download, cwd=scratch, check=True, capture_output=True)
            (archive,) = Path(scratch).glob("*.deb")
            subprocess.run(["dpkg", "-x", archive, Path(scratch, "root")], check=True)
            if not unpacked.exists():  # another process may have been first
                Path(scratch, "root").rename(unpacked)
    return unpacked / "usr/sbin/runc"


def _command(runtime: str) -> list[str]:
    """The command of a runtime. crun wants cgroup v2 alone, so it sees that, wherever else v1 is mounted, too."""
    if runtime == "runc":
        return [str(runc())]
    alone = 'mount -t cgroup2 none /sys/fs/cgroup && exec "$0" "$@"'
    return ["unshare", "--mount", "sh", "-c", alone, runtime]


class Container:
    """A container that runs a script of the shell.

    Args:
        runtime: runc or crun.

    Attributes:
        id_: its id.
        bundle: the folder of its file system, `rootfs`, and its description.
    """

    def __init__(
        self, bundle: Path, id_: str, script: str, cgroup: str = "", runtime: str = "runc", **annotations: str
    ) -> None:
        self.id_, self.bundle = id_, bundle
        self._runtime = _command(runtime)
        (bundle / "rootfs/bin").mkdir(parents=True)
        busybox = shutil.which("busybox")
        assert busybox
        shutil.copy(busybox, bundle / "rootfs/bin/busybox")
        self._call("spec", cwd=bundle)
        path = bundle / "config.json"
        described: dict[str, Any] = json.loads(path.read_text())
        described["process"] |= {"terminal": False, "args": ["/bin/busybox", "sh", "-c", script]}
        described["root"]["readonly"] = False
        described["linux"] |= {"cgroupsPath": cgroup} if cgroup else {}
        described["linux"].pop("resources", None)  # for devices, crun raises a limit, which not every root may
        described["linux"]["namespaces"] = [*described["linux"]["namespaces"], {"type": "cgroup"}]
        described["annotations"] = annotations
        path.write_text(json.dumps(described))

    def command(self, word: str) -> list[str]:
        """The command that does this with the container."""
        with_bundle = ["--bundle", str(self.bundle)] if word in ("run", "create") else []
        return [*self._runtime, word, *with_bundle, self.id_]

    def __enter__(self) -> "Container":
        """Creates it; its script waits for `start`."""
        created = subprocess.run(
            self.command("create"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True
        )
        assert created.returncode == 0
        return self

    def start(self) -> None:
        """Lets the script begin."""
        subprocess.run(self.command("start"), check=True)

    @property
    def pid(self) -> int:
        """Its first process."""
        told = json.loads(self._call("state", self.id_))
        return int(told["pid"])

    def __exit__(self, *_: object) -> None:
        self.delete()

    def delete(self) -> None:
        """Ends and removes it."""
        subprocess.run([*self._runtime, "delete", "--force", self.id_], check=True)

    def _call(self, *words: str, cwd: Path | None = None) -> str:
        return subprocess.run([*self._runtime, *words], cwd=cwd, check=True, capture_output=True, text=True).stdout
