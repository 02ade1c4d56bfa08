"""What people should know about the probe `syscalls`."""

from scope_catalogue.guide import Example, Guide

GUIDE = Guide(
    examples=(
        Example(
            "scope trace syscalls -- ls /",
            "which calls a command makes, how often, how long they take, and how many fail",
        ),
        Example(
            "scope trace syscalls --lines -- ls /",
            "a line per call, with decoded arguments and results, as `strace` shows them",
        ),
        Example(
            "scope trace syscalls -o names=%file,mmap -- ls /",
            "only the calls with paths, as in `strace`, and `mmap`",
        ),
        Example(
            'scope trace syscalls --where "ret < 0" --json -- ls /',
            "only failed calls, as JSON",
        ),
        Example(
            "scope trace syscalls --mode summary --duration 1",
            "the whole machine, counted in the kernel",
        ),
    ),
    notes=(
        "`--lines` decodes arguments and results. In other outputs `-o decode=registers`, `paths` or `all` fills "
        "the columns `args`, `result` and `path`; the default, `none`, costs least.",
        "`-o names=` takes names, patterns such as `epoll_*`, and the classes of `strace` such as `%file` and "
        "`%network`.",
        "A row comes when its call has ended, so rows are not in order of time: `jq -sc 'sort_by(.ktime_ns)[]'` "
        "sorts JSON.",
        'A call that never returns, such as `exit_group`, has no result: `--where "ret is null"` selects these.',
    ),
    limits=(
        "The arguments of 32-bit calls are registers only: they are not decoded. Their numbers are from another table "
        "than those of 64-bit calls: tell calls apart by name.",
        "What io_uring does for a process is no call. Notes of the trace or task tell how many submissions there were; "
        "those that the kernel polls for (SQPOLL) are not counted.",
        "A call that was already under way when the trace began has no row.",
        "If the kernel makes events faster than they are read, events are lost and counted. `--mode summary` "
        "counts in the kernel and never loses a call.",
    ),
)
