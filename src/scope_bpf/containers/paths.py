"""What the path of a cgroup says: container engines and systemd name cgroups after what runs in them.

A path lists the cgroups from the root on. Where containers run in containers, each has its cgroups below those of the
outer one; so the innermost container is the last one in the path.
"""

import re
from dataclasses import dataclass

_ID = r"(?P<id>[0-9a-f]{64})"
# An engine's name may precede the id: docker-ID.scope, cri-containerd-ID.scope, libpod-payload-ID, SLICE:crio:ID.
_HEXADECIMAL = re.compile(rf"(?:.*[:-])?{_ID}(?:\.scope)?")
# Engines whose users choose the id.
_CHOSEN = re.compile(
    r"(?:runc|crun)-(?P<runtime>.+)\.scope"
    r"|[^:]+:(?:runc|crun):(?P<unresolved>.+)"
    r"|lxc\.payload[.-](?P<lxc>.+)"
    r"|machine-(?!qemu|libpod)(?P<machine>.+)\.scope"
    r"|systemd-nspawn@(?P<nspawn>.+)\.service"
)
_LXC = ("lxc", "lxc.payload")  # older versions: the container's cgroup is below
_MONITOR = re.compile(r".*conmon.*")  # runs beside its container, whose id its cgroup has
_POD = re.compile(r"(?:.*kubepods.*-)?pod(?P<uid>[0-9a-f]{8}[-_0-9a-f]{24,28})(?:\.slice)?")
_PODMAN_POD = re.compile(rf"(?:.*-)?libpod_pod_{_ID}(?:\.slice)?")
_UNIT = re.compile(r".+\.(?:service|scope|socket|mount|swap)")
_USER = re.compile(r"user-(\d+)\.slice")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")  # as systemd escapes names
_SHORT = 12  # digits of an id that engines show


@dataclass(frozen=True)
class Named:
    """What a path names; empty: nothing.

    Attributes:
        container_id: of the innermost container: 64 hexadecimal digits, or a name that its user has chosen.
        pod: its uid in Kubernetes, or the first digits of its id in Podman.
        unit: of systemd: the innermost one that is not an engine's scope for a container.
        user: uid of the user in whose slice the outermost container, or the process, is.
    """

    container_id: str = ""
    pod: str = ""
    unit: str = ""
    user: str = ""


def named_by(path: str) -> Named:
    """What the path of a cgroup names."""
    container = pod = unit = user = before = ""
    for part in path.split("/"):
        if found := _container(part, before):
            container = found
        if not found or part.endswith(".service"):
            unit = part if _UNIT.fullmatch(part) else unit
        pod = _pod(part.partition(":")[0]) or pod
        if not container and (slice_ := _USER.fullmatch(part)):
            user = slice_[1]
        before = part
    return Named(container, pod, unit, user)


def named_in(text: str) -> Named:
    """What a process's cgroups name; `text` is its `/proc/PID/cgroup`.

    Of the hierarchies of cgroup v1 and v2, some may not have the engine's cgroups.
    """
    found = [named_by(path) for path in paths_in(text)]
    return next((one for one in found if one.container_id), next((one for one in found if one.unit), Named()))


def paths_in(text: str) -> list[str]:
    """The different paths in a `/proc/PID/cgroup`, that of systemd's hierarchy first, then that in cgroup v2."""
    paths = _paths(text)
    return list(dict.fromkeys(filter(None, (paths.pop("name=systemd", ""), paths.pop("", ""), *paths.values()))))


def unified(text: str) -> str:
    """A process's path in cgroup v2; `text` is its `/proc/PID/cgroup`. Empty: it has none."""
    return _paths(text).get("", "")


def _paths(text: str) -> dict[str, str]:
    """Paths by controllers; those of cgroup v2 are empty."""
    lines = (line.split(":", 2) for line in text.splitlines())
    return {line[1]: line[2].removesuffix(" (deleted)") for line in lines if len(line) == 3}


def _container(part: str, before: str) -> str:
    if _MONITOR.fullmatch(part) or _PODMAN_POD.fullmatch(part):
        return ""
    if found := _HEXADECIMAL.fullmatch(part):
        return found["id"]
    if found := _CHOSEN.fullmatch(part):
        chosen = found[found.lastgroup or 0]
        return _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), chosen)
    return part if before in _LXC else ""


def _pod(part: str) -> str:
    if found := _POD.fullmatch(part):
        return found["uid"].replace("_", "-")
    found = _PODMAN_POD.fullmatch(part)
    return found["id"][:_SHORT] if found else ""
