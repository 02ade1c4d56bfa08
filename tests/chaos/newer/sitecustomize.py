"""Turns each Python process with this folder in PYTHONPATH into a newer build: stream `syscall` has one more column."""

import dataclasses
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_MODULE = "scope_bpf.probes.syscalls"


class _Newer(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _MODULE:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                module.PROBE = _with_a_column_more(module.PROBE)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _with_a_column_more(probe: Any) -> Any:
    import pyarrow as pa

    from scope_bpf.catalogue.stream import Derived
    from scope_catalogue.stream import Column

    first, *others = probe.streams
    derive = first.derive

    def newer(rows: Any) -> dict[str, Any]:
        return derive(rows) | {"failed": pa.array(rows["ret"] < 0)}

    derived = {**first.derived, "failed": Derived(Column("whether it failed"), pa.bool_())}
    return dataclasses.replace(probe, streams=(dataclasses.replace(first, derived=derived, derive=newer), *others))


sys.meta_path.insert(0, _Newer())
