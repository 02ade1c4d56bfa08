"""What every probe with call stacks needs, whose programs include bpf/include/stack.bpf.h."""

import pyarrow as pa

from scope_bpf.catalogue.probe import Hooks
from scope_bpf.catalogue.stream import Derived
from scope_catalogue.stream import Column

MAPS = ("scope_stacks", "python_codes", "python_lines")  # kept by process

HOOKS = Hooks(programs=("python_fork", "python_exec", "python_forget"))

# Of probes that unwind native stacks by tables: profile, and those that define STACK_UNWOUND.
UNWOUND_HOOKS = HOOKS + Hooks(programs=("unwind_fork", "unwind_exec", "unwind_forget"))

_WORD = pa.dictionary(pa.int32(), pa.string())

STACK = Derived(
    Column(
        "call stack, outermost frame first, separated by semicolons: functions; Python functions with file and line; "
        "functions of the kernel, which end in _[k]; starts with [cut] if outer frames are missing; absent if not kept",
        stack=True,
    ),
    _WORD,
)

COLUMNS = {
    "stack": STACK,
    "function": Derived(
        Column("innermost frame of the stack; of times off a CPU, the innermost one that is not the kernel's"), _WORD
    ),
    "python": Derived(Column("innermost Python frame: function, file and line; absent if there is none"), _WORD),
    "walked": Derived(
        Column("how native frames were found: eh_frame, by unwind tables; frame_pointers: some frames may be missing"),
        _WORD,
    ),
}
