"""Lines of instructions, compared with those that each version of CPython tells."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scope_bpf.code.python.lines import line_of

# The line tables of all code in a module, with the line of each instruction as `dis` knows it.
TELLS = """
import dis, json, sys, types
def codes(code):
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from codes(one)
def lines(code):
    if sys.version_info >= (3, 10):
        for begin, end, line in code.co_lines():
            for at in range(begin, end, 2):
                yield at, line
        return
    starts, line = dict(dis.findlinestarts(code)), None
    for instruction in dis.get_instructions(code):
        line = starts.get(instruction.offset, line)
        yield instruction.offset, line
path = sys.argv[1]
code = compile(open(path, encoding="utf-8").read(), path, "exec")
print(json.dumps([{
    "table": (one.co_linetable if sys.version_info >= (3, 10) else one.co_lnotab).hex(),
    "first": one.co_firstlineno, "lines": list(lines(one)),
} for one in codes(code)]))
"""


def interpreters() -> list[Any]:
    """This interpreter, and the others of the machine."""
    others = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))
    found = [(path, tuple(map(int, path.parts[-3].split(".")[:2]))) for path in others]
    found.append((Path(sys.executable), tuple(sys.version_info[:2])))
    return [pytest.param(path, version, id=str(path)) for path, version in found if version >= (3, 8)]


@pytest.mark.parametrize(("python", "version"), interpreters())
@pytest.mark.parametrize("module", ["argparse", "asyncio.base_events", "dataclasses", "json.decoder"])
def test_lines(python: Path, version: tuple[int, int], module: str) -> None:
    """Every instruction of a module of the standard library has the line that the interpreter tells."""
    find = f"import importlib.util; print(importlib.util.find_spec({module!r}).origin)"
    origin = subprocess.check_output([python, "-c", find], text=True).strip()
    told = json.loads(subprocess.check_output([python, "-c", TELLS, origin], text=True))
    assert len(told) > 10
    for code in told:
        table = bytes.fromhex(code["table"])
        assert [line_of(table, code["first"], at, version) for at, _ in code["lines"]] == [
            line for _, line in code["lines"]
        ]


def test_before_the_first_instruction() -> None:
    """A frame that has not begun is at the function's first line."""
    (code,) = (one for one in compile("\n\ndef f():\n  return 1", "f", "exec").co_consts if hasattr(one, "co_code"))
    assert line_of(code.co_linetable, code.co_firstlineno, -2, (3, 11)) == code.co_firstlineno == 3


@pytest.mark.parametrize("version", [(3, 8), (3, 10), (3, 11)])
def test_a_cut_table(version: tuple[int, int]) -> None:
    """A table that ends too early gives a line or none, and no error."""
    table = test_lines.__code__.co_linetable
    for end in range(len(table)):
        line_of(table[:end], 1, 10_000, version)


@pytest.mark.parametrize("version", [(3, 11), (3, 13)])
def test_a_line_that_is_too_large(version: tuple[int, int]) -> None:
    """A program may give its code any table: an endless number is no line."""
    assert line_of(b"\xf0" + b"\x7f" * 30_000, 1, 0, version) is None
    assert line_of(b"\xf0" + b"\x7f" * 7, 1, 0, version) is None
