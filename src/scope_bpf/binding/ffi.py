"""The only import of the extension. Its types are not checked, because cffi makes them at build time."""

from pathlib import Path
from typing import Any

from scope_bpf.binding import _native  # type: ignore[attr-defined]  # made by the build
from scope_bpf.errors import KernelError

ffi: Any = _native.ffi
lib: Any = _native.lib
extension_file = Path(_native.__file__)


def libbpf_log() -> str:
    """libbpf's log messages on this thread since the last call."""
    text: bytes = ffi.string(lib.scope_log_take())
    return text.decode(errors="replace")


def check(result: int, action: str) -> int:
    """Returns a call's result, unless it is a negative error number.

    Raises:
        KernelError: the result is negative; `action` describes the call.
    """
    if result < 0:
        raise KernelError(action, -result, libbpf_log())
    return result
