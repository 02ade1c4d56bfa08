"""Which CPython interpreters watched processes run, and which of their calls can be seen."""

import pyarrow as pa

from scope_bpf.catalogue.stream import Rows, Stream
from scope_bpf.code.elf import ElfFile
from scope_bpf.code.history import Process
from scope_bpf.code.modules import Module
from scope_bpf.code.python.interpreter import Interpreter, interpreter_in
from scope_bpf.code.usdt import sites

ENTRY = ("python", "function__entry")
_MOST_TOLD = 16  # interpreters in notes


class Interpreters:
    """Tells of each interpreter how its calls are seen; see `scope_bpf.code.resolver.Resolver`.

    Args:
        evaluate: calls of interpreters without USDT probes are recorded, too.
    """

    def __init__(self, *, evaluate: bool) -> None:
        self._evaluate = evaluate
        self._said: dict[str, str] = {}  # by path

    def add_module(self, module: Module) -> bool:
        """Looks whether the file is an interpreter."""
        if interpreter := interpreter_in(module.elf):
            self._said[module.path] = (
                f"every call, by the USDT probes of {interpreter.name}"
                if has_entries(module.elf)
                else self._without_probes(interpreter)
            )
        return False

    def _without_probes(self, interpreter: Interpreter) -> str:
        lacks = f"{interpreter.name} has no USDT probes for calls"
        if not interpreter.evaluated:
            return f"{lacks}, and no other way to record its calls is known; sample its stacks instead"
        if not self._evaluate:
            return f"{lacks}: -o evaluate=true records them, but ends a program that switches stacks, as gevent does"
        return f"calls up to 64 deep, by the evaluation of frames: {lacks}. Names that are not ASCII may be absent"

    def find_functions(self, module: Module) -> dict[str, int]:
        """None: all have symbols."""
        return {}

    def drop_module(self, module: Module) -> None:
        """Nothing to release: notes tell of past processes, too."""

    def add_process(self, process: Process) -> None:
        """Nothing to keep."""

    def notes(self) -> list[str]:
        """What is seen of each interpreter."""
        said = list(self._said.copy().items())
        more = [f"and {len(said) - _MOST_TOLD:,} more interpreters"] if len(said) > _MOST_TOLD else []
        return [f"{path}: {text}" for path, text in said[:_MOST_TOLD]] + more

    def settle(self, timeout_s: float) -> None:
        """Nothing is read in the background."""

    def close(self) -> None:
        """Nothing runs."""

    def resolve(self, stream: Stream, rows: Rows) -> dict[str, pa.Array]:
        """No stream has resolved columns."""
        return {}


def has_entries(elf: ElfFile) -> bool:
    """Whether the file has USDT probes for the calls of Python functions."""
    return any((site.provider, site.name) == ENTRY for site in sites(elf))
