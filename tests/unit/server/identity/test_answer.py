"""Which addresses machines are told, and whether they know them."""

from pathlib import Path

import pytest

from scope_server.identity.answer import Answers
from scope_server.identity.authority import Authority
from scope_wire.endpoint import Endpoint


@pytest.mark.parametrize(
    ("listens", "advertised", "servers", "known"),
    [
        ("10.0.0.7", (), ["10.0.0.7:71"], True),
        ("10.0.0.7", (), ["10.0.0.8:71"], False),
        ("0.0.0.0", (), ["scope.example:71"], True),
        ("::", (), ["[fd00::7]:71"], True),
        ("0.0.0.0", (), ["scope.example:171"], False),
        ("0.0.0.0", (), ["scope.example:71", "10.0.0.7:71"], False),
        ("0.0.0.0", ("a", "b"), ["a:71", "b:71"], True),
        ("0.0.0.0", ("a", "b"), ["a:71"], False),
        ("0.0.0.0", ("fd00::7",), ["[fd00::7]:71"], True),
    ],
)
def test_what_a_machine_knows(
    tmp_path: Path, listens: str, advertised: tuple[str, ...], servers: list[str], known: bool
) -> None:
    """A machine knows the addresses if it has what it would be told; what has no host has any one host."""
    at = Endpoint(listens, 71), Endpoint(listens, 74)
    answers = Answers(Authority(tmp_path), lambda: at, advertised)
    told = [f"[{host}]:74" if ":" in host else f"{host}:74" for host in advertised or [listens]]
    told = [":74"] if not advertised and listens in ("0.0.0.0", "::") else told
    enrolments = [address.replace(":71", ":74") for address in servers]
    assert answers.enrolments() == told
    assert not Answers(Authority(tmp_path), tuple, advertised).enrolments()
    assert answers.are_known(servers, enrolments) is known
    assert not answers.are_known(servers, servers), "the ports are those of two services"
