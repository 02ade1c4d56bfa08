"""The table of CUDA's functions, and what the programs take it for."""

import re
from enum import IntEnum
from pathlib import Path

import pytest

from scope_bpf.probes.cuda.functions import FUNCTIONS, Copy, Kind, Memory

HEADERS = Path(__file__).parents[5] / "bpf/probes/cuda"


@pytest.mark.parametrize(
    ("enum", "header", "name", "prefix"),
    [
        (Kind, "frames.bpf.h", "cuda_kind", "CUDA_"),
        (Memory, "memory.bpf.h", "cuda_memory_kind", "CUDA_"),
        (Copy, "copies.bpf.h", "copy_kind", "COPY_"),
    ],
)
def test_enums_are_the_headers(enum: type[IntEnum], header: str, name: str, prefix: str) -> None:
    """As many enumerators, of the same names in the same order."""
    body = re.search(rf"enum {name} {{(.*?)}};", (HEADERS / header).read_text(), re.DOTALL)
    assert body
    words = re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", body[1], flags=re.DOTALL))
    assert [word.removeprefix(prefix).removeprefix("NO_MEMORY") or "NONE" for word in words] == list(enum.__members__)
    assert list(enum) == list(range(len(enum)))


def test_a_function_is_named_once() -> None:
    """A symbol leads to one row of the table."""
    symbols = [symbol for function in FUNCTIONS for symbol in function.symbols]
    assert len(symbols) == len(set(symbols))
