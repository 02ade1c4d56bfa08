"""`scope admin join-token, remove, revoke, confirm` and `scope nodes label`: what they ask the server for."""

from collections.abc import Callable

import pytest
from tests.unit.cli.answers import MACHINE
from tests.unit.cli.conftest import Api

Run = Callable[..., tuple[int, str, str]]


def test_a_token(api: Api, scope: Run) -> None:
    """It is printed alone, so that a script can take it. Without flags it is for one machine and an hour."""
    api.answer("POST join-tokens", {"token": "scope-join-x"}, status=201)
    assert scope("admin", "join-token") == (0, "scope-join-x\n", "")
    scope("admin", "join-token", "--uses", "7", "--expires", "1d", "--label", "role=gpu", "--label", "rack=r1")
    assert [body for _, _, body in api.asked] == [
        {"valid": 3600.0, "uses": 1, "labels": {}},
        {"valid": 86400.0, "uses": 7, "labels": {"role": "gpu", "rack": "r1"}},
    ]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--expires", "soon"), "'soon' is no time; write it as 30m, 12h or 1d"),
        (("--expires", "-1h"), "is no time"),
        (("--expires", "infd"), "is no time"),
        (("--label", "gpu"), "'gpu' is no label; write it as NAME=VALUE"),
        (("--uses", "many"), "invalid int value"),
    ],
)
def test_bad_flags_of_a_token(scope: Run, flags: tuple[str, str], said: str) -> None:
    """They are refused before the server is asked."""
    flag, value = flags
    status, _, error = scope("admin", "join-token", f"{flag}={value}")
    assert (status, said in error) == (2, True), error


@pytest.mark.parametrize(("verb", "past"), [("remove", "removed"), ("revoke", "revoked"), ("confirm", "confirmed")])
def test_the_end_of_a_membership(api: Api, scope: Run, verb: str, past: str) -> None:
    """The machine's id is printed, whatever it was called by."""
    api.answer(f"POST nodes/here/{verb}", {"machine_id": MACHINE})
    assert scope("admin", verb, "here") == (0, f"{past} {MACHINE}\n", "")


def test_a_person_is_named_as_one(api: Api, scope: Run) -> None:
    """A machine and a person may have the same name."""
    api.answer("POST certificates/here/revoke", {"revoked": 2})
    assert scope("admin", "revoke", "--person", "here") == (0, "revoked 2\n", "")
    assert scope("admin", "revoke")[0] == 2


def test_labels_are_set_and_deleted(api: Api, scope: Run) -> None:
    """NAME=VALUE sets a label, NAME- deletes one; all labels are printed."""
    api.answer("POST nodes/here/labels", {"labels": {"role": "gpu", "app": "x"}})
    assert scope("nodes", "label", "here", "role=gpu", "rack-") == (0, "app=x role=gpu\n", "")
    assert api.asked[-1][2] == {"role": "gpu", "rack": None}
    for change in ("rack", "=x", "x="):
        status, _, error = scope("nodes", "label", "here", change)
        assert (status, "NAME=VALUE sets a label" in error) == (2, True)
