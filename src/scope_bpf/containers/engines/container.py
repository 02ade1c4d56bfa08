"""What an engine knows of a container, and how its labels say it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_SANDBOX = "POD"  # as CRI-O and Docker call the container that holds a pod's namespaces


@dataclass(frozen=True)
class Container:
    """A container; texts are empty if the engine does not know them."""

    name: str = ""
    image: str = ""
    pod: str = ""
    namespace: str = ""


def labelled(labels: Mapping[str, object], name: str = "", image: str = "") -> Container:
    """A container with these labels or annotations; Kubernetes' names go before the engine's own.

    Args:
        name: the engine's own name for it.
        image: the same.
    """
    if labels.get("io.kubernetes.cri.container-type") == "sandbox":
        name = _SANDBOX
    return Container(
        name=_first(labels, ("io.kubernetes.cri.container-name", "io.kubernetes.container.name", "nerdctl/name"))
        or name,
        image=_first(labels, ("io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName")) or image,
        pod=_first(labels, ("io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name")),
        namespace=_first(labels, ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace")),
    )


def _first(labels: Mapping[str, object], names: Iterable[str]) -> str:
    return next((value for name in names if isinstance(value := labels.get(name), str) and value), "")
