"""What people should know about the probe `heap`."""

from scope_catalogue.guide import Example, Guide

GUIDE = Guide(
    examples=(
        Example(
            "scope trace heap -- ls -lR /usr/share/doc/apt",
            "the memory that a command has not freed, by the stack that allocated it",
        ),
        Example(
            "scope trace heap --flamegraph /tmp/heap.svg -- ls -lR /usr/share/doc/apt",
            "a flame graph of that memory",
        ),
        Example(
            "scope trace heap -o sample_bytes=16384 -- sort /etc/passwd",
            "the same for large heaps: small allocations are sampled, and the figures are estimates",
        ),
    ),
    notes=(
        "It attaches to malloc, calloc, realloc, free, posix_memalign and the like in every file that watched "
        "processes map: glibc, musl, jemalloc, tcmalloc and mimalloc, preloaded, linked, or linked statically.",
        "Sizes are those that the program asked for. Memory is live from the return of the call that allocated it "
        "until a call frees it; `mean_age_ns` is for how long.",
        "`scope leaks` shows live memory by stack; `scope states heap_memory` shows it by process.",
        "A call within another one is the same memory and counts once: realloc within reallocarray, or malloc within a "
        "wrapper of malloc.",
        "With `sample_bytes`, an allocation is recorded with the probability of its size divided by that many bytes, "
        "and counts for as much more; larger ones are all recorded. So sums are right on average, and the column "
        "`sample_bytes` says that they are estimates.",
        "Python takes memory for small objects from pools of its own. With `PYTHONMALLOC=malloc` in its environment, "
        "it asks malloc for each object, and the stacks have the lines of Python that made it: `scope trace heap -- "
        "env PYTHONMALLOC=malloc python3 train.py`.",
        "A block that another thread frees is freed; a failed realloc frees nothing.",
    ),
    limits=(
        "Memory allocated before the recording, or by the parent before a fork, is not known; its frees are counted in "
        "`unknown_frees`.",
        "Up to 1,048,576 blocks are kept at once; more are counted as lost. With `sample_bytes` they need fewer.",
        "malloc with its free costs 5 to 10 µs, most of it the kernel's for the probes, and 2 µs more for the stack; "
        "calls in processes that are not watched cost about half, if they use the same library.",
        "operator new of jemalloc, tcmalloc and mimalloc is recorded only with `-o throwing=true`: a program that "
        "catches std::bad_alloc from it would end. Those of libstdc++ and libc++ call malloc, and are recorded.",
        "Memory from mmap and brk, and within pools of the program's own, such as small objects of Python without "
        "`PYTHONMALLOC=malloc`, is not seen; nor are allocators without these names, such as Go's.",
    ),
)
