"""Says which processes replay CUDA graphs: the attached functions of the CUDA backend are not called then."""

from weakref import WeakKeyDictionary

from scope_bpf.binding.object import BpfObject
from scope_bpf.code.history import History
from scope_bpf.code.modules import Module
from scope_bpf.layout.records import record_dtype
from scope_bpf.probes.ggml.functions import OPERATIONS

_QUIET_NS = 1_000_000_000  # between a process's latest call and its latest launch, before this is worth a note


class Replays:
    """Reads the map `ggml_replays`, which has an entry for each process in which ggml has launched a CUDA graph."""

    def __init__(self, object_: BpfObject, history: History) -> None:
        self._map, self._history = object_.map("ggml_replays"), history
        self._key = record_dtype(object_.btf, "ggml_replays_key")
        self._value = record_dtype(object_.btf, "ggml_replays")
        self._functions: WeakKeyDictionary[Module, int] = WeakKeyDictionary()
        self._last: list[str] | None = None

    def notes(self) -> list[str]:
        """A line per process that has launched graphs for a second or more since its latest call."""
        if self._last is not None:
            return self._last
        keys, values = self._map.read_all()
        processes, replays = keys.view(self._key).reshape(-1), values.view(self._value).reshape(-1)
        said = []
        for process, replay in zip(processes, replays, strict=True):
            pid, start_ns, launches = (int(each) for each in (process["pid"], process["start_ns"], replay["launches"]))
            quiet_ns = int(replay["launched_ns"]) - int(max(replay["called_ns"], replay["since_ns"]))
            if launches and quiet_ns >= _QUIET_NS:
                said.append(self._note(pid, start_ns, launches, quiet_ns))
        return sorted(said)

    def _note(self, pid: int, start_ns: int, launches: int, quiet_ns: int) -> str:
        attached = self._attached(pid, start_ns)
        state = f"attached to {attached} functions of its CUDA backend" if attached else "its CUDA backend is unknown"
        return (
            f"process {pid}: {state}, no hits in {quiet_ns / 1e9:,.1f} s, in which ggml launched {launches:,} CUDA "
            "graphs; a graph repeats its operations without calling these functions"
        )

    def _attached(self, pid: int, start_ns: int) -> int:
        """The number of functions that are attached in the files of a process."""
        process = self._history.find(pid, start_ns)
        modules = {one.module for one in list(process.mapped) if one.module} if process else set()
        for module in modules - set(self._functions):
            self._functions[module] = len(module.elf.functions(OPERATIONS))
        return sum(self._functions[module] for module in modules)

    def close(self) -> None:
        """Keeps what is to be said, before the map is gone."""
        self._last = self.notes()
