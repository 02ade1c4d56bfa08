"""What is known of the containers of processes."""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scope_bpf.containers.engines import lookup, runtimes
from scope_bpf.containers.engines.container import Container
from scope_bpf.containers.paths import named_in, paths_in, unified
from scope_bpf.host import has_host_pids

_MOST_KNOWN = 4096  # distinct texts of /proc/PID/cgroup
_AGAIN_S = 1.0  # an engine may write its files after it has made the cgroup
_LATER_S = 300.0  # to ask all engines takes over a millisecond, and most cgroups are no container's
_RENAMED_S = 30.0  # after which a container may have another name


@dataclass(frozen=True)
class Membership:
    """What a process belongs to. Texts are empty if there is nothing, or nothing is known.

    Attributes:
        cgroup: its path in cgroup v2.
        container_id: of the innermost container: 64 hexadecimal digits, or a name that its user has chosen.
        container_name: as the engine has it.
        pod: its name; else its uid or id.
        namespace: of the pod.
        unit: of systemd.
    """

    cgroup: str = ""
    container_id: str = ""
    container_name: str = ""
    image: str = ""
    pod: str = ""
    namespace: str = ""
    unit: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether the engine was found; if not, it may be later."""
        return bool(self.container_name)

    def shown(self, name: str) -> str | None:
        """What is shown for one of the names in `scope_catalogue.stream.OF_PROCESS`; None: nothing is known."""
        if name == "container":
            return self.container_name or self.container_id[:12] or None
        return getattr(self, name) or None


@dataclass(frozen=True)
class _Answer:
    """What was found. What is not whole is asked for again after as long as it has been known.

    Attributes:
        since: when it was asked for the first time.
        at: when it was asked for the last time.
        until: when it is asked for again.
    """

    membership: Membership
    since: float
    at: float
    until: float


class Containers:
    """Containers by their cgroups; what was found is kept after their end. For any thread.

    Args:
        root: of the file system with the engines' files; None: the host's.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or _of_host()
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Answer] = OrderedDict()

    def of(self, text: str, at_least: float = 0.0) -> Membership:
        """What a process belongs to.

        Args:
            text: see `cgroups_of`.
            at_least: a time of `time.monotonic`: an answer that is not whole is not older.
        """
        with self._lock:
            found = self._known.get(text)
        if found and time.monotonic() < found.until and (found.membership.is_whole or found.at >= at_least):
            return found.membership
        return self.look(text)

    def look(self, text: str) -> Membership:
        """The same, but asks the engines whatever is known already."""
        at = time.monotonic()
        made = self._made(text)  # without the lock: an engine may take its time
        now = time.monotonic()
        with self._lock:
            found = self._known.get(text)
            if found and found.membership.is_whole and not made.is_whole:
                made = found.membership  # its container has ended
            since = found.since if found else now
            pause = _RENAMED_S if made.is_whole else min(max(_AGAIN_S, now - since), _LATER_S)
            self._known[text] = _Answer(made, since, at, now + pause)
            self._known.move_to_end(text)
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return made

    def _made(self, text: str) -> Membership:
        named = named_in(text)
        id_ = named.container_id or next(self._chosen(text), "")
        container = (lookup.find(self._root, id_, named.user) if id_ else None) or Container()
        return Membership(
            cgroup=unified(text),
            container_id=id_,
            container_name=container.name,
            image=container.image,
            pod=container.pod or named.pod,
            namespace=container.namespace,
            unit=named.unit,
        )

    def _chosen(self, text: str) -> Iterator[str]:
        """The ids of containers whose cgroups do not say that they are one's."""
        return filter(None, (runtimes.id_of(self._root, path) for path in paths_in(text)))


def _of_host() -> Path:
    """The root of the host's file system: this process may be in a container itself."""
    root = Path("/proc/1/root")
    try:
        return root if has_host_pids() and root.joinpath("proc").exists() else Path("/")
    except OSError:  # another user's process
        return Path("/")


def cgroups_of(pid: int) -> str:
    """The cgroups of a process: its `/proc/PID/cgroup`.

    Raises:
        OSError: the process has ended.
    """
    return Path(f"/proc/{pid}/cgroup").read_text(errors="backslashreplace")
