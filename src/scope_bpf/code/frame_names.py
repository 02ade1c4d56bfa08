"""Texts of native stack frames: the function's name, or where the function is in which build of a file.

The names of stripped files are in separate debug files. Such a file may arrive later; from then on, frames have names.
"""

from typing import NamedTuple
from weakref import WeakKeyDictionary

from scope_bpf.code.debug.debug_files import DebugFiles
from scope_bpf.code.elf import ElfFile
from scope_bpf.code.function_starts import FunctionStarts
from scope_bpf.code.modules import Module

_MOST_TOLD = 20  # files in notes


class Frame(NamedTuple):
    """The text of a frame, and whether it is a name, for which no better text can come."""

    text: str
    is_named: bool


class _Known(NamedTuple):
    """A file's frames by offset in the file, as they are with a debug file."""

    debug: ElfFile | None
    frames: dict[int, Frame]


class FrameNames:
    """Makes each text once. `at` is for one thread, the other methods for any."""

    def __init__(self) -> None:
        self._debug_files = DebugFiles()
        self._starts: WeakKeyDictionary[Module, FunctionStarts] = WeakKeyDictionary()
        self._known: WeakKeyDictionary[Module, _Known] = WeakKeyDictionary()
        self._left_out: dict[str, str] = {}  # what of files is too large to be read, by path

    @property
    def arrived(self) -> int:
        """A number that grows when there are more names than before."""
        return self._debug_files.arrived

    def at(self, module: Module, offset: int) -> Frame:
        """The frame at an offset in a file: the function's name; or file, offset at which the function begins (if this
        is not known, the given offset), and build id."""
        known = self._known.get(module)
        if not known or known.debug is not module.debug:
            known = self._known[module] = _Known(module.debug, {})
        if offset not in known.frames:
            known.frames[offset] = self._made(module, offset)
        return known.frames[offset]

    def _made(self, module: Module, offset: int) -> Frame:
        name = module.name_at(offset)
        if not name and self._debug_files.seek(module):
            name = module.name_at(offset)
        if not name and module.elf.left_out and len(self._left_out) < _MOST_TOLD:
            self._left_out[module.path] = ", ".join(module.elf.left_out.values())
        place = f"{module.place_of(self._begin(module, offset))} [{module.elf.build_id or 'no build id'}]"
        return Frame((name or place).replace(";", ","), name is not None)

    def _begin(self, module: Module, offset: int) -> int:
        """The offset at which the function begins; if this is not known, the given one."""
        address = module.elf.address_of(offset)
        if module not in self._starts:
            self._starts[module] = FunctionStarts(module.elf)
        start = self._starts[module].start_of(address) if address is not None else None
        begin = module.elf.offset_of(start) if start is not None else None
        return offset if begin is None else begin

    def notes(self) -> list[str]:
        """What of files was too large to be read, and which debug files could not be had, as text."""
        left_out = [f"names not read: {path}: {text}" for path, text in self._left_out.copy().items()]
        return left_out + self._debug_files.notes()

    def close(self) -> None:
        """Lets go all debug files, and seeks no more. May be called again."""
        self._debug_files.close()
        self._known.clear()
