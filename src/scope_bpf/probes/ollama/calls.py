"""What the programs are attached to: calls that read and write sockets, and functions that get a log."""

from collections.abc import Mapping
from typing import Any

from scope_bpf.catalogue.place import Place, Symbol
from scope_bpf.layout.btf import Btf
from scope_bpf.layout.records import enum_values
from scope_bpf.probes.syscalls import by_number

_CALLS = {
    "read": "CALL_READ",
    "readv": "CALL_READV",
    "pread64": "CALL_PREAD",
    "mmap": "CALL_MMAP",
    "recvfrom": "CALL_RECVFROM",
    "recvmsg": "CALL_RECVMSG",
    "write": "CALL_WRITE",
    "sendto": "CALL_WRITE",
    "writev": "CALL_WRITEV",
    "sendmsg": "CALL_SENDMSG",
    "sendfile": "CALL_SENDFILE",
    "close": "CALL_CLOSE",
    "shutdown": "CALL_SHUTDOWN",
}

# Read in ggml.h, llama-impl.h and common/log.cpp of 2024 to 2026, and in Ollama's llama.go: `llamaLog` came in December
# 2024 with the update to today's order of levels, and went in May 2026. A program has one of the last two for the lines
# of llama.cpp and one for ggml's, if it has not set a function of its own.
_LOGS = {
    "OLLAMA_LLAMALOG": "llamaLog",
    "OLLAMA_COMMON_LOG_DEFAULT_CALLBACK": "_Z27common_log_default_callback14ggml_log_levelPKcPv",
    "OLLAMA_LLAMA_LOG_CALLBACK_DEFAULT": "_Z26llama_log_callback_default14ggml_log_levelPKcPv",
    "OLLAMA_GGML_LOG_CALLBACK_DEFAULT": "ggml_log_callback_default",
}

FUNCTIONS = ("llamaLog", "common_log_default_callback", "llama_log_callback_default", "ggml_log_callback_default")


def call_table(btf: Btf) -> Any:
    """The kinds of calls, by number of call."""
    kinds = enum_values(btf, "ollama_call")
    return by_number({name: kinds[kind] for name, kind in _CALLS.items()})


def places(_: Mapping[str, Any]) -> tuple[Place, ...]:
    """The places of the functions that get a log."""
    return tuple(Place(Symbol((name,)), "ollama_logs", keep={"function": kind}) for kind, name in _LOGS.items())
