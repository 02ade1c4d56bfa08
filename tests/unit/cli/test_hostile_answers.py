"""Whatever the server answers to whichever subcommand: on the terminal, each of its texts stays one harmless text."""

import argparse
import importlib
import inspect
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from tests.unit.cli.test_printable import HOSTILE, PRINTING, SHOWN, TIME, harmless

import scope_cli.commands
from scope_cli import api
from scope_cli.client import Client

Scope = Callable[..., tuple[int, str, str]]
COMMANDS = sorted(file.stem for file in Path(scope_cli.commands.__file__).parent.glob("[!_]*.py"))
TIMES = {"created", "expires", "revoked", "seen", "time", "since", "until", "begin", "end", "read_since", "examined"}
# ANY is a hostile text, FILE the path of a file.
ASKING = (
    "admin audit",
    "admin audit verify",
    "admin change-user ANY --disable",
    "admin confirm ANY",
    "admin create-user ANY",
    "admin invite ANY",
    "admin join-token",
    "admin remove ANY",
    "admin revoke ANY",
    "admin rotate-ca",
    "admin users",
    "aggregates ANY",
    "compare ANY --where ANY",
    "flamegraph ANY -o FILE",
    "export ANY -o FILE",
    "heatmap ANY",
    "nodes label ANY a=b",
    "probes --node ANY",
    "stop ANY",
    "templates",
    "templates delete ANY",
    "templates keep ANY process",
    "token list",
    "token make ANY",
    "token revoke ANY",
    "why --pid 7",
    "why ANY",
)
# Commands that print nothing that a server has answered: with the tests of what they do print, if that may be hostile.
OTHERS = {
    "admin client-cert": "",
    "admin fingerprint": "",
    "admin grafana-role": "",
    "agentd": "test_printable: logs",
    "bench fleet": "",
    "bench store": "",
    "config check": "test_configurations_are_harmless",
    "config sample": "",
    "config show": "test_configurations_are_harmless",
    "doctor": "",
    "install": "",
    "login": "",
    "logout": "",
    "server": "test_printable: logs",
    "tail": "test_printable",
    "trace": "test_printable",
    "uninstall": "",
    "up": "test_printable",
}


def _hostile(hint: Any, name: str = "", *, whole: bool) -> Any:
    """A value of a type of the API, in which every text that may be anything is hostile.

    Args:
        whole: what may be null is not, and flags are set.
    """
    inner = [_hostile(one, name, whole=whole) for one in get_args(hint) if get_origin(hint) is not Literal]
    if is_typeddict(hint):
        return {key: _hostile(one, key, whole=whole) for key, one in get_type_hints(hint).items()}
    if isinstance(hint, UnionType):  # None is the last one of those that may be null
        return next(one for one in inner if one is not None) if whole else inner[-1]
    texts = TIME if name in TIMES else HOSTILE
    plain = {bool: whole and name != "has_next", int: 1, float: 1.0, NoneType: None}
    made = {list: inner, dict: {HOSTILE: inner[-1] if inner else None}, Literal: next(iter(get_args(hint)), None)}
    return made.get(get_origin(hint), plain.get(hint, texts))


def _commands(parser: argparse.ArgumentParser, words: str = "") -> Iterator[str]:
    """The words of every command that can be run."""
    if words and parser.get_default("run"):
        yield words
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, topic in action.choices.items():
                yield from _commands(topic, f"{words} {name}".strip())


def test_every_command_is_tried() -> None:
    """A new subcommand is either among those that are tried, or it is said what of its output is tried."""
    parser = argparse.ArgumentParser()
    subcommands = parser.add_subparsers()
    for name in COMMANDS:
        importlib.import_module(f"scope_cli.commands.{name}").register(subcommands)
    known = {*_commands(parser)}
    tried = {max((one for one in known if f"{words} ".startswith(f"{one} ")), key=len) for words in ASKING + PRINTING}
    assert tried | OTHERS.keys() == known
    assert not tried & OTHERS.keys()


@pytest.mark.parametrize("words", ASKING)
def test_answers_are_harmless(words: str, scope: Scope, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each text of an answer, and of the arguments, is shown escaped; none acts on the terminal or begins a line."""
    monkeypatch.setenv("COLUMNS", "4000")
    shown = ""
    for whole in (True, False):
        for name, method in inspect.getmembers(api.Api, inspect.isfunction):
            if name not in api.Api.__abstractmethods__:
                answer = _hostile(get_type_hints(method)["return"], whole=whole)
                monkeypatch.setattr(Client, name, lambda *_, answer=answer, **__: answer)
        monkeypatch.setattr("sys.stdin", io.StringIO("a long password\n"))
        texts = {"ANY": HOSTILE, "FILE": str(tmp_path / "file")}
        _, said, complaints = scope(*(texts.get(word, word) for word in words.split()))
        assert harmless(said) and harmless(complaints)
        shown += said + complaints
    assert SHOWN in shown
    assert not [line for line in shown.splitlines() if line.lstrip().startswith("row")]


def test_configurations_are_harmless(scope: Scope, tmp_path: Path) -> None:
    """Values and unknown names of a configuration file are shown escaped."""
    text = json.dumps("/" + HOSTILE.replace("\x7f", "").replace("\ud800", ""))
    for words, content in (
        ("show server", f"state_dir = {text}"),
        ("check agentd", f"{text} = 1"),
        ("check agentd", f"control = {text}"),
    ):
        (file := tmp_path / "scope.toml").write_text(content)
        _, said, complaints = scope("config", *words.split(), str(file))
        assert harmless(said) and harmless(complaints)
        assert "u202e" in said + complaints
