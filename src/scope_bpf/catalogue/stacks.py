"""What every probe with call stacks needs, whose programs include bpf/include/stack.bpf.h."""

from scope_bpf.catalogue.probe import Hooks

MAPS = ("scope_stacks", "python_codes", "python_lines")  # kept by process

HOOKS = Hooks(
    programs=("python_fork", "python_exec", "python_forget", "unwind_fork", "unwind_exec", "unwind_forget")
)
