"""Docker, also under Kubernetes: one file a container, kept until the container is removed."""

from pathlib import Path

from scope_bpf.containers.engines.container import Container, labelled
from scope_bpf.containers.engines.files import json_of, object_in, text_in

_FOLDERS = ("var/lib/docker/containers", "var/snap/docker/common/var-lib-docker/containers")


def find(root: Path, id_: str) -> Container | None:
    """The container with this id; `root` is the file system's."""
    for folder in _FOLDERS:
        if found := json_of(root / folder / id_ / "config.v2.json"):
            config = object_in(found, "Config")
            name, image = text_in(found, "Name").removeprefix("/"), text_in(config, "Image")
            return labelled(object_in(config, "Labels"), name, image)
    return None
