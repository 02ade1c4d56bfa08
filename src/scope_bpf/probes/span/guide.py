"""What people should know about the probe `span`."""

from scope_catalogue.guide import Example, Guide

GUIDE = Guide(
    examples=(
        Example(
            "scope trace span 'libc:malloc size=arg0:u64 at=ret:ptr' 'libc:free at=arg0:ptr' --lines -- ls /",
            "each call with its arguments and its result",
        ),
        Example(
            "scope trace span 'libc:malloc size=arg0:u64' --mode summary -- ls /",
            "how many calls, and how long they took",
        ),
        Example(
            "scope trace span -o where=true 'libc:fopen path=arg0:str' -- sh -c 'getent passwd root'",
            "where the time of each call went: on a CPU, waiting for a CPU, blocked, in page faults",
        ),
    ),
    notes=(
        "A function is declared as `FILE:FUNCTION NAME=SOURCE ...`. FILE is the name of a program or library, such "
        "as `libc`, `libc.so.6` or `python3.11`, or a path. FUNCTION is a name as in the symbol table or as in the "
        "source: `ggml_cuda_pool_vmm::alloc`, with its parameters or without. Both may contain `*`, `?` and "
        "`[...]`. Local functions are found, too, unless the file was stripped.",
        "SOURCE is `arg0` to `arg9` or `ret`. Only integers and pointers count as arguments: in `f(double, int "
        "n)`, `n` is `arg0`. In a C++ method `arg0` is `this`; if the result is a large struct, `arg0` is its "
        "address.",
        "`->OFFSET` follows a pointer: `op=arg1->+0x50:u32`. TYPE is `u8` to `u64`, `i8` to `i64`, `bool`, `ptr`, "
        "`str` (a pointer to text), and in memory `f32` and `f64`. A call has up to six numbers, in the column "
        "`args`, and one text, in `text`.",
        "`FILE:PROVIDER:NAME` is a USDT probe, a place that the program's author marked: "
        "`python3.11:python:gc__start generation=arg0:i32`, `libc:*:*`. SOURCE is `arg0` to `arg11`. The probe's "
        "notes in the file tell the size of each argument and whether it has a sign, so a value without a TYPE is "
        "right. A hit has no duration; `ended` is `moment`. USDT probes are found in stripped files, too.",
        "`-o where=true` splits each duration: on a CPU, waiting for a CPU, blocked, stopped by a signal; and "
        "tells how much of it was in page faults. Where the kernel left one of the programs out at a switch, the time "
        "around it is `unknown_ns`, and the call counts as incomplete.",
    ),
    limits=(
        "A value that cannot be read is absent. A page that the program has not touched yet cannot be read, so the "
        "first call with a text may lack it.",
        "A duration contains what the kernel needs at the entry and the return: 1 to 2 µs, and up to 20 µs where "
        "the kernel must single-step the function's first instruction in a virtual machine. Every process that "
        "runs the file pays this, also if it is not watched.",
        "The return of a function is left alone where recording it would end the program: functions that use their "
        "return address, such as `setjmp`, and functions that are C++, Rust or D by their names, because an "
        "exception may pass them. If yours throw none, use `-o returns=all`.",
        "What names do not tell is up to you: for programs that switch stacks (gevent, QEMU, fibers) and for C "
        "functions that exceptions pass, use `-o returns=none`. Functions of Go are left out.",
        "With `-o where=true`, programs run at every context switch, wakeup and page fault of the machine.",
    ),
)
