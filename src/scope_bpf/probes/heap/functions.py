"""The functions that allocate and free memory: of C libraries, and of allocators that programs use instead."""

from typing import Any

from scope_bpf.catalogue.place import Chosen, Place, Symbol

# The allocators' own names for the functions of C: jemalloc, jemalloc within Rust programs, mimalloc, tcmalloc.
_PREFIXES = ("", "je_", "_rjem_", "mi_", "tc_")
_OWN_OPERATORS = ("mallocx", "mi_malloc", "tc_malloc", "tc_new")  # an allocator has one of these

_OF_C = {
    "HEAP_ALLOCATE": ("malloc", "valloc", "pvalloc", "mallocx"),
    "HEAP_ALLOCATE_MANY": ("calloc",),
    "HEAP_ALIGNED": ("aligned_alloc", "memalign"),
    "HEAP_ALIGNED_INTO": ("posix_memalign",),
    "HEAP_AGAIN": ("realloc", "rallocx"),
    "HEAP_AGAIN_MANY": ("reallocarray",),
    "HEAP_FREE": ("free", "cfree", "dallocx", "sdallocx"),
}

_NEW_THROWING = ("_Znwm", "_Znam", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t")
_NEW = tuple(f"{name}RKSt9nothrow_t" for name in ("_Znwm", "_Znam", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t"))
_DELETE = tuple(
    f"_Zd{what}Pv{rest}"
    for what in "la"
    for rest in (
        *("", "m", "St11align_val_t", "mSt11align_val_t", "RKSt9nothrow_t"),
        "St11align_val_tRKSt9nothrow_t",
    )
)


def _has_own_operators(elf: Any) -> bool:
    """Whether a file is an allocator, whose operators do not call malloc and free as those of libstdc++ do."""
    return bool(elf.functions(_OWN_OPERATORS))


def _place(at: Symbol | Chosen, kind: str) -> Place:
    frees = kind == "HEAP_FREE"
    return Place(at, "heap_free" if frees else "heap_enter", "" if frees else "heap_return", keep={"kind": kind})


def _operator(name: str, kind: str) -> Place:
    return _place(Chosen(name, _has_own_operators, "allocator"), kind)


def places(throwing: bool) -> tuple[Place, ...]:
    """All functions.

    Args:
        throwing: also the operators new of allocators that throw std::bad_alloc.
    """
    return (
        *(
            _place(Symbol(tuple(prefix + name for prefix in _PREFIXES)), kind)
            for kind, names in _OF_C.items()
            for name in names
        ),
        *(_operator(name, "HEAP_ALLOCATE") for name in (*_NEW, *(_NEW_THROWING if throwing else ()))),
        *(_operator(name, "HEAP_FREE") for name in _DELETE),
    )
