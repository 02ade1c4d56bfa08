"""Which CPython interpreters watched processes run, and how their functions are recorded."""

from scope_bpf.binding.object import BpfObject
from scope_bpf.code.elf import ElfFile
from scope_bpf.code.modules import Module, Modules
from scope_bpf.code.python.interpreter import Interpreter, interpreter_in
from scope_bpf.code.stacks import StackResolver
from scope_bpf.code.usdt import sites

ENTRY = ("python", "function__entry")
_MOST_TOLD = 16  # interpreters in notes


class Interpreters(StackResolver):
    """Tells of each interpreter how its functions are recorded, and names those that are sampled.

    Args:
        evaluate: calls of interpreters without USDT probes are recorded, too.
        rate: samples a second.
    """

    def __init__(self, object_: BpfObject, modules: Modules, *, evaluate: bool, rate: int) -> None:
        self._evaluate, self._rate = evaluate, rate
        self._sampled: set[Module] = set()
        self._said: dict[str, str] = {}  # by path
        super().__init__(object_, modules, is_walked=self._sampled.__contains__)

    def add_module(self, module: Module) -> bool:
        """Looks whether the file is an interpreter; keeps it if it is sampled."""
        interpreter = interpreter_in(module.elf)
        if not interpreter:
            return False
        if has_entries(module.elf):
            self._said[module.path] = f"complete: every call, by the USDT probes of {interpreter.name}"
        elif self._evaluate and interpreter.evaluated:
            self._said[module.path] = (
                "complete but for calls nested deeper than 64, which are counted as lost: by the evaluation of frames, "
                f"since {_lacks(interpreter)}. Names that are not ASCII may be absent"
            )
        else:
            self._said[module.path] = self._without_calls(interpreter)
            if not interpreter.unknown:
                self._sampled.add(module)
        return module in self._sampled

    def _without_calls(self, interpreter: Interpreter) -> str:
        reasons = [_lacks(interpreter)]
        if interpreter.unknown:
            reasons.append(f"{interpreter.unknown} is not known")
        if interpreter.evaluated:
            reasons.append("-o evaluate=true records calls, but ends a program that switches stacks, as gevent does")
        how = "not recorded" if interpreter.unknown else f"sampled {self._rate} times a second of CPU time"
        return f"{how}: {'; '.join(reasons)}"

    def drop_module(self, module: Module) -> None:
        """Forgets a file that no process maps any more."""
        super().drop_module(module)
        self._sampled.discard(module)

    def notes(self) -> list[str]:
        """How each interpreter's functions are recorded."""
        said = list(self._said.copy().items())
        more = [f"and {len(said) - _MOST_TOLD:,} more interpreters"] if len(said) > _MOST_TOLD else []
        return [f"{path}: {text}" for path, text in said[:_MOST_TOLD]] + more


def _lacks(interpreter: Interpreter) -> str:
    return f"{interpreter.name} has no USDT probes for calls"


def has_entries(elf: ElfFile) -> bool:
    """Whether the file has USDT probes for the calls of Python functions."""
    return any((site.provider, site.name) == ENTRY for site in sites(elf))
