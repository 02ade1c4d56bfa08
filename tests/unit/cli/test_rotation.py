"""`scope admin rotate-ca`: what it asks the server for, and prints."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.cli.answers import MACHINE
from tests.unit.cli.conftest import Api

Run = Callable[..., tuple[int, str, str]]
WITHOUT: dict[str, Any] = {"rotates": False, "machines": []}
WITH: dict[str, Any] = {
    "rotates": True,
    "machines": [
        {"machine_id": MACHINE, "hostname": "here", "connected": True, "has_next": True},
        {"machine_id": "1" * 32, "hostname": "slow", "connected": True, "has_next": False},
        {"machine_id": "2" * 32, "hostname": "away", "connected": False, "has_next": False},
    ],
}
SHOWN = """1 of 3 machines have the next root
  slow (111111111111), connected, lacks it
  away (222222222222), not connected, lacks it
"""


@pytest.mark.parametrize(
    ("flags", "asked", "answer"),
    [
        ((), "GET authority/rotation", WITHOUT),
        (("--begin",), "POST authority/rotation/begin", WITH),
        ((), "GET authority/rotation", WITH),
        (("--finish",), "POST authority/rotation/finish", WITHOUT),
    ],
)
def test_each_step(api: Api, scope: Run, flags: tuple[str, ...], asked: str, answer: Any) -> None:
    """Without a flag it only shows the progress. Machines that lack the next root are named."""
    api.answer(asked, answer)
    said = SHOWN if answer["rotates"] else "the authority has one root; --begin makes the next one\n"
    assert scope("admin", "rotate-ca", *flags) == (0, said, "")
    assert json.loads(scope("admin", "rotate-ca", *flags, "--json")[1]) == answer


def test_a_refusal(api: Api, scope: Run) -> None:
    """Which agents lack the next root is said, and the status is 1."""
    detail = "1 connected agents lack the next root: slow; wait, or see why in their logs, or stop them"
    api.answer("POST authority/rotation/finish", {"status": 409, "title": "Conflict", "detail": detail}, status=409)
    status, out, error = scope("admin", "rotate-ca", "--finish")
    assert (status, out, detail in error) == (1, "", True)


def test_one_step_at_a_time(scope: Run) -> None:
    """Both steps at once are no wrong request, but a wrong command."""
    assert scope("admin", "rotate-ca", "--begin", "--finish")[0] == 2
