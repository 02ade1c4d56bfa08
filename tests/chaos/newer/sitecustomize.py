"""Turns each Python process with this folder in PYTHONPATH into a newer build: stream `syscall` has one more column."""

import dataclasses
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class _Newer(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = _CHANGES.get(fullname)
        if change is None:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _change_probe(module: Any) -> None:
    """What the agent records."""
    import pyarrow as pa

    from scope_bpf.catalogue.stream import Derived
    from scope_catalogue.stream import Column

    first, *others = module.PROBE.streams
    made = first.made

    def newer(rows: Any) -> dict[str, Any]:
        return {**made.derive(rows), "failed": pa.array(rows["ret"] < 0)}

    derived = {**made.derived, "failed": Derived(Column("whether it failed"), pa.bool_())}
    changed = dataclasses.replace(first, made=dataclasses.replace(made, derived=derived, derive=newer))
    module.PROBE = dataclasses.replace(module.PROBE, streams=(changed, *others))


def _change_catalogue(module: Any) -> None:
    """What the server knows."""
    probes = module.probes

    def newer() -> dict[str, Any]:
        from scope_catalogue.stream import TypedColumn

        known = probes()["syscalls"]
        first, *others = known.streams
        column = TypedColumn("whether it failed", name="failed", type="bool")
        changed = dataclasses.replace(first, columns=(*first.columns, column))
        return {**probes(), "syscalls": dataclasses.replace(known, streams=(changed, *others))}

    module.probes = newer


_CHANGES: dict[str, Callable[[Any], None]] = {
    "scope_bpf.probes.syscalls": _change_probe,
    "scope_catalogue.catalogue": _change_catalogue,
}
sys.meta_path.insert(0, _Newer())
