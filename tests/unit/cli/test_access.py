"""Which server the commands ask."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.unit.cli.conftest import TOKEN, Api

from scope_cli.access import Access, forget_login, found, keep_login, read_login, refreshed
from scope_cli.errors import CommandError

LOGIN = Access(
    "https://there:8470", token="0123456789abcdef", refresh_token="next", authority="-----BEGIN CERTIFICATE-----"
)


@pytest.fixture(autouse=True)
def _no_state(api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This machine's installation is found without SCOPE_STATE, as for a person."""
    assert api.url
    monkeypatch.delenv("SCOPE_STATE")
    monkeypatch.setattr("scope_cli.access.running_state_dir", lambda: tmp_path)


def test_a_login_comes_before_this_machines_server(api: Api) -> None:
    """After a login, commands ask its server with its tokens; after a logout, this machine's."""
    here = Access(api.url, socket=str(api.socket))
    assert found() == here
    keep_login(LOGIN)
    assert found() == LOGIN
    assert forget_login()
    assert found() == here
    assert not forget_login()


def test_what_the_environment_names_comes_before_a_login(
    api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """SCOPE_URL and SCOPE_STATE come before a login; a login's own URL has the login's token."""
    keep_login(LOGIN)
    with monkeypatch.context() as named:
        named.setenv("SCOPE_STATE", str(tmp_path))
        assert found() == Access(api.url, socket=str(api.socket))
    monkeypatch.setenv("SCOPE_URL", f"{LOGIN.url}/")
    assert found() == LOGIN
    monkeypatch.setenv("SCOPE_URL", "https://elsewhere")
    with pytest.raises(CommandError, match="SCOPE_URL needs a token"):
        found()
    monkeypatch.setenv("SCOPE_TOKEN_FILE", str(tmp_path / "token"))
    assert found() == Access("https://elsewhere", token=TOKEN)
    (tmp_path / "ca.pem").write_text("its authority")
    monkeypatch.setenv("SCOPE_CA_FILE", str(tmp_path / "ca.pem"))
    assert found() == Access("https://elsewhere", token=TOKEN, authority="its authority")
    monkeypatch.setenv("SCOPE_CA_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(CommandError, match=r"cannot read the authority's certificate, .*none.pem"):
        found()


def test_a_login_is_private(tmp_path: Path) -> None:
    """Only the owner can read a kept login, or its directory."""
    keep_login(LOGIN)
    keep_login(LOGIN)
    (file,) = (tmp_path / "config" / "scope").iterdir()
    assert [path.stat().st_mode & 0o777 for path in (file, file.parent)] == [0o600, 0o700]


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"token": "there"}), "\0"])
def test_a_damaged_login_is_told(tmp_path: Path, content: str) -> None:
    """A login that cannot be read is an error with the file and the remedy; no other server is asked instead."""
    keep_login(LOGIN)
    (tmp_path / "config" / "scope" / "login.json").write_text(content)
    with pytest.raises(CommandError, match=r"login.json: .*`scope logout` removes it"):
        found()
    assert forget_login()
    assert read_login() is None


def test_commands_that_refresh_at_the_same_time_ask_once() -> None:
    """A refresh token can be spent once: the others take what the first one has got."""
    keep_login(LOGIN)
    asked: list[str] = []

    def refresh(token: str) -> tuple[str, str]:
        asked.append(token)
        return "fresh", "the next after it"

    with ThreadPoolExecutor(8) as commands:
        got = list(commands.map(lambda _: refreshed(LOGIN, refresh), range(8)))
    assert asked == ["next"]
    assert {(access.token, access.refresh_token) for access in got} == {("fresh", "the next after it")}
    assert read_login() == got[0]
