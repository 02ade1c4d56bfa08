"""What shows an owner's device: whose it is, and that nobody else can make it."""

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.unit.server.accounts.test_access_token import secret_of

from scope_server.accounts import devices
from scope_server.accounts.access_token import AccessTokens
from scope_server.accounts.devices import VALID, Devices

USER = str(uuid4())
DEVICES = Devices(secret_of("this"))


def test_each_login_has_a_number_of_its_own() -> None:
    """So that passwords tried with a stolen value use up only what may be tried with it."""
    first, second = DEVICES.make(USER), DEVICES.make(USER)
    assert DEVICES.number(first, USER) == DEVICES.number(first, USER) != ""
    assert DEVICES.number(first, USER) != DEVICES.number(second, USER)


def test_it_shows_one_account_of_one_authority() -> None:
    """Neither another account's, nor another server's, nor a changed one, nor another kind of token shows anything."""
    value = DEVICES.make(USER)
    assert DEVICES.number(value, str(uuid4())) == ""
    assert Devices(secret_of("another")).number(value, USER) == ""
    access = AccessTokens(secret_of("this"))
    assert access.read(value) is None
    same = Devices(lambda _: b"one key for all purposes".ljust(64))
    for wrong in (
        value[:-4] + "AAAA",
        "",
        "x",
        "\ud800",
        "a.b.c",
        access.make(USER, str(uuid4())),
    ):
        assert DEVICES.number(wrong, USER) == "", wrong
    assert (
        same.number(AccessTokens(lambda _: b"one key for all purposes".ljust(64)).make(USER, str(uuid4())), USER) == ""
    )


def test_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a year without a login, its owner is a stranger again."""

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) - VALID - timedelta(minutes=1)

    with monkeypatch.context() as past:
        past.setattr(devices, "datetime", Earlier)
        value = DEVICES.make(USER)
    assert DEVICES.number(value, USER) == ""
