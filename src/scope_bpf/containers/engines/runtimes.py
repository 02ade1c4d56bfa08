"""runc and crun: the state of each container, as long as it runs. Its users choose its id, and where its cgroup is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scope_bpf.containers.engines.container import Container, labelled
from scope_bpf.containers.engines.files import json_of, object_in, text_in

_RUNC = ("run/runc", "run/docker/runtime-runc/moby", "run/containerd/runc/*")
_CRUN = ("run/crun",)


def find(root: Path, id_: str, user: str = "") -> Container | None:
    """The container with this id, with what its annotations say of it.

    Args:
        root: of the file system.
        user: see `paths.Named`.
    """
    for state in _states(root, id_, user):
        return labelled(state.annotations, name=id_)
    return None


def bundles(root: Path, id_: str, user: str) -> Iterator[Path]:
    """The folders that the engines made for the containers with this id."""
    return (root / state.bundle.lstrip("/") for state in _states(root, id_, user) if state.bundle)


def id_of(root: Path, path: str) -> str:
    """The id of the container in a cgroup with this path, or around it; empty: there is none.

    By default, a container's cgroup is called like the container.
    """
    parts = path.split("/")
    for end in range(len(parts), 1, -1):
        around, last = "/".join(parts[:end]), parts[end - 1]
        if last not in ("", ".", "..") and any(state.is_at(around) for state in _states(root, last)):
            return last
    return ""


@dataclass(frozen=True)
class _State:
    """What a runtime keeps of a container.

    Attributes:
        bundle: the folder that the engine made for it.
        cgroups: their paths, which may have mount points before them.
    """

    bundle: str
    annotations: Mapping[str, Any]
    cgroups: Sequence[str]

    def is_at(self, path: str) -> bool:
        """Whether one of the cgroups has this path."""
        return any(f"/{cgroup.strip('/')}".endswith(path) for cgroup in self.cgroups)


def _states(root: Path, id_: str, user: str = "") -> Iterator[_State]:
    """Those of the containers with this id, of root and of the user."""
    for folder in _folders(root, *_RUNC, user and f"run/user/{user}/runc"):
        if state := json_of(folder / id_ / "state.json"):
            labels = object_in(state, "config").get("labels")
            pairs = (
                (text.partition("=") for text in labels if isinstance(text, str)) if isinstance(labels, list) else ()
            )
            cgroups = [path for path in object_in(state, "cgroup_paths").values() if isinstance(path, str)]
            annotations = {name: value for name, _, value in pairs}
            yield _State(annotations.get("bundle", ""), annotations, cgroups)
    for folder in _folders(root, *_CRUN, user and f"run/user/{user}/crun"):
        if state := json_of(folder / id_ / "status"):
            bundle = text_in(state, "bundle")
            described = json_of(root / bundle.lstrip("/") / "config.json")
            yield _State(bundle, object_in(described, "annotations"), [text_in(state, "cgroup-path")])


def _folders(root: Path, *patterns: str) -> Iterator[Path]:
    for pattern in filter(None, patterns):
        yield from root.glob(pattern) if "*" in pattern else (root / pattern,)
