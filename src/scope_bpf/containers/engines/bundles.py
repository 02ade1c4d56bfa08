"""Engines that leave their labels in the bundle that the runtime gets: containerd, also under Kubernetes (K3s, k0s and
MicroK8s have folders of their own) and with nerdctl, and CRI-O. A bundle is there as long as its container runs."""

from pathlib import Path

from scope_bpf.containers.engines.container import Container, labelled
from scope_bpf.containers.engines.files import json_of, object_in

_TASKS = tuple(
    f"{state}/io.containerd.runtime.v2.task"
    for state in (
        *("run/containerd", "run/k3s/containerd", "run/k0s/containerd"),
        "var/snap/microk8s/common/run/containerd",
    )
)
_OF_CRIO = ("run/containers/storage/overlay-containers", "var/lib/containers/storage/overlay-containers")


def find(root: Path, id_: str) -> Container | None:
    """The container with this id; `root` is the file system's. None: no bundle says anything of it."""
    folders = [folder / id_ for tasks in _TASKS for folder in _namespaces(root / tasks)]
    folders += [root / folder / id_ / "userdata" for folder in _OF_CRIO]
    for folder in folders:
        found = labelled(object_in(json_of(folder / "config.json"), "annotations"))
        if found != Container():
            return found
    return None


def _namespaces(tasks: Path) -> list[Path]:
    try:
        return sorted(tasks.iterdir())
    except OSError:
        return []
