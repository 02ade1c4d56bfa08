"""What people should know about the probe `python`."""

from scope_catalogue.guide import Example, Guide

GUIDE = Guide(
    examples=(
        Example(
            "scope trace python -- python3 -m timeit 'sum(range(1000))'",
            "calls by function, with file, line, total and own time, or samples",
        ),
        Example(
            "scope trace python --mode summary -- python3 -m timeit 'sum(range(1000))'",
            "calls counted in the kernel",
        ),
        Example(
            "scope trace python --flamegraph /tmp/python.svg -- python3 -c 'sum(i * i for i in range(3_000_000))'",
            "a flame graph, where the interpreter is sampled",
        ),
    ),
    notes=(
        "The program is not changed. A generator is called each time it is resumed, and its call ends when it "
        "yields. Calls that C functions such as `sorted` make are recorded; calls of C functions are not.",
        "Calls come from the interpreter's USDT probes (`--with-dtrace`). Debian, Ubuntu, Fedora and RHEL build "
        "with them, up to 3.11; `docker.io/python`, pyenv, uv and conda do not, and CPython 3.12 to 3.14 has none. "
        "The probes do not tell whether a call returned, yielded or raised: `ended` is `ended`.",
        "Interpreters without these probes are sampled, 99 times a second of CPU time (`-o rate=`): "
        "`python_sample` has the innermost function with file and line, and the stack of Python functions. A note "
        "says of each interpreter whether its calls are `complete`, `sampled` or `not recorded`, and why.",
        "`-o file_prefix=...`, `-o function=...` and `-o min_duration_ns=...` choose calls in the kernel; they do "
        "not apply to samples. `--mode summary` counts calls, total and own time, and durations by function, in "
        "the kernel.",
        "`-o evaluate=true` also records CPython 3.6 to 3.10 without USDT probes, at the function that evaluates a "
        "frame; then `ended` is `returned` or `raised`.",
    ),
    limits=(
        "**`-o evaluate=true` kills a program that switches stacks, with greenlet or gevent**: the kernel replaces "
        "return addresses on its stack.",
        "With `-o evaluate=true`, calls nested deeper than 64 are counted as lost, and names that are not ASCII "
        "may be absent.",
        "A call takes 4 to 5 µs longer in a virtual machine, in every process of this interpreter, also if it is "
        "not watched. That is four times what a `sys.setprofile` function takes that keeps the same: choose "
        "`python` for programs that you cannot change. In 3.11, the interpreter must also check every instruction.",
    ),
)
