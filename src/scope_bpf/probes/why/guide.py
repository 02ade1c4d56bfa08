"""How the probe is used."""

from scope_catalogue.guide import Example, Guide

GUIDE = Guide(
    examples=(
        Example(
            "scope trace why -- ls /",
            "the wall time of each thread: on a CPU, waiting for a CPU, or blocked, and in which call",
        ),
        Example(
            "scope trace why --comm sh --duration 1",
            "the same of all processes with this name, for a second",
        ),
        Example(
            "scope trace why -o stacks=true --flamegraph /tmp/blocked.svg -- sleep 0.1",
            "a flame graph of the time blocked",
        ),
    ),
    notes=(
        "The parts of a thread add up to its wall time: `on_cpu_ns`, `run_queue_ns` and `blocked_ns`.",
        "For blocked threads, `blocked_in` is the syscall, `page fault`, `stopped` or `kernel`; `file_kind` and "
        "`path` say which file, pipe or socket the call waits for. `disk` is the disk of the file, `remote` and "
        "`remote_port` are the peer of the socket.",
        "For the lock of a `futex`, and the thread that held it, record `locks`, too: `scope trace why,locks`.",
        "Page faults have a stream of their own. Their time is part of the wall time: do not add it.",
    ),
    limits=(
        "A thread that waits for several sockets, by `epoll_wait` or `poll`, has no peer.",
        "A syscall that does not block costs nothing. The programs run at every context switch, wakeup and page "
        "fault of the machine, also for processes that are not watched.",
        "While `why` runs, a page fault takes about 0.4 µs longer in a process that is not watched, and 0.7 µs "
        "longer in a watched process. Both were measured in a virtual machine with faults of new pages, which take "
        "2.1 µs there without `why`.",
        "Threads that run 32-bit code have no stack.",
    ),
)
