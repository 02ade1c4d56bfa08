"""Every command of SCOPE in docs/bcc.md has probes, options and a filter that there are."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from scope_cli.trace.tracing import Tracing

PAGE = Path(__file__).parents[3] / "docs" / "bcc.md"
COMMANDS = re.findall(r"`scope trace ([^`]+)`", PAGE.read_text())


@pytest.mark.parametrize("command", dict.fromkeys(COMMANDS))
def test_a_command_can_be_given(command: str) -> None:
    """The probes know the options, and have the columns of the filter."""
    words = shlex.split(command.replace("--mode ", "-o mode="))
    given = list(pairwise(words))
    options = dict(value.split("=", 1) for name, value in given if name == "-o")
    (where,) = [value for name, value in given if name == "--where"] or [""]
    Tracing([probe_named(name) for name in words[0].split(",")], options, Target(), where)


def test_the_page_has_commands() -> None:
    """The page is about the tools that its table names."""
    assert len(COMMANDS) > 20
