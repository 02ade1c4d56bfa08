"""How a subcommand finds the server, and its messages when it cannot."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Api

from scope_cli import installation
from scope_cli.access import Access
from scope_cli.client import Client
from scope_cli.errors import CommandError
from scope_cli.installation import (
    HTTP,
    running_state_dir,
    state_dir,
    tell_url,
    told_running,
    told_socket,
    told_url,
    url_of,
)
from scope_wire.endpoint import Endpoint

Run = Callable[..., tuple[int, str, str]]


def test_the_state_directory_says_where_the_server_is(api: Api, scope: Run) -> None:
    """A subcommand finds a server on other ports through the state directory, without an option or SCOPE_URL."""
    api.answer("GET nodes", {"nodes": []})
    assert scope("nodes", "--json") == (0, "[]\n", "")


def test_a_running_scope_up_is_found_wherever_its_state_is(
    api: Api, scope: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running `scope up` is found without SCOPE_STATE; after its end or a kill, the default directory is used."""
    monkeypatch.delenv("SCOPE_STATE")
    monkeypatch.setattr(installation, "_RUN", tmp_path / "root's")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    api.answer("GET nodes", {"nodes": []})
    with told_running(tmp_path):
        assert running_state_dir() == tmp_path
        assert scope("nodes", "--json") == (0, "[]\n", "")
        with told_running(tmp_path / "later"):
            assert running_state_dir() == tmp_path / "later"
        assert list((tmp_path / "run").iterdir()) == []
    with told_running(tmp_path), monkeypatch.context() as sudo:
        sudo.delenv("XDG_RUNTIME_DIR")
        assert running_state_dir() == tmp_path
    assert running_state_dir() == state_dir()
    for told in (f"{1 << 30} {tmp_path}", "", "x y", "\0 \0"):
        (tmp_path / "run" / "scope-running").write_text(told)
        assert running_state_dir() == state_dir()
    monkeypatch.setenv("SCOPE_STATE", "/elsewhere")
    assert running_state_dir() == Path("/elsewhere")


def test_one_that_cannot_say_that_it_runs_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A runtime directory that cannot be written is logged, and raises no error."""
    monkeypatch.setattr(installation, "_RUN", tmp_path / "file")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "file"))
    with told_running(tmp_path):
        assert "cannot write where the state directory is" in caplog.text


@pytest.mark.usefixtures("api")
def test_another_user_is_told_of_roots(scope: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If root runs SCOPE, a user without a server is told to call `sudo scope`."""
    (tmp_path / "api.sock").unlink()
    assert "sudo" not in scope("nodes")[2]
    monkeypatch.setattr(installation, "ROOTS_STATE", tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    status, _, said = scope("nodes")
    assert (status, said.count("\n")) == (1, 1)
    assert "root has a SCOPE on this machine: call `sudo scope`" in said


def test_a_given_url_comes_first(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A given access comes before SCOPE_URL, and SCOPE_URL before the state directory."""
    assert Client().url == api.url
    monkeypatch.setenv("SCOPE_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("SCOPE_TOKEN_FILE", str(tmp_path / "token"))
    assert Client().url == "http://127.0.0.1:1"
    assert Client(Access(api.url, token="a token")).url == api.url


def test_without_a_word_it_is_the_usual_place(tmp_path: Path) -> None:
    """Without an api-url file, or with an invalid one, the default address is used."""
    assert told_url(tmp_path) == f"http://{HTTP}"
    (tmp_path / "api-url").write_bytes(b"\xff\x00")
    assert told_url(tmp_path) == f"http://{HTTP}"


def test_what_is_told_is_found_and_private(tmp_path: Path) -> None:
    """The written URL is found, also after a change; only the owner can read it."""
    socket = tmp_path / "its.sock"
    for address, url in (
        ("127.0.0.1:81", "http://127.0.0.1:81"),
        ("[::1]:82", "http://[::1]:82"),
        ("10.0.0.1:83", "https://10.0.0.1:83"),
        ("0.0.0.0:84", "https://127.0.0.1:84"),
    ):
        tell_url(tmp_path, url_of(Endpoint.parse(address, "http")), socket)
        assert (told_url(tmp_path), told_socket(tmp_path)) == (url, socket)
    assert [(file.name, file.stat().st_mode & 0o777) for file in tmp_path.iterdir()] == [("api-url", 0o600)]


def test_a_server_that_cannot_say_where_it_is_serves(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A state directory that cannot be written is logged, and raises no error."""
    (tmp_path / "file").write_text("")
    tell_url(tmp_path / "file", "http://127.0.0.1:81", tmp_path)
    assert "cannot say where the API is" in caplog.text


def test_a_proxy_is_for_others(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client ignores http_proxy: no proxy reaches this machine's loopback."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    api.answer("GET nodes", {"nodes": []})
    assert Client().get("nodes") == {"nodes": []}


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]"])
def test_an_answer_that_is_none_is_told(api: Api, body: bytes) -> None:
    """A 503 without a JSON problem in its body is reported by its status."""
    api.answer("GET tasks", body, status=503)
    with pytest.raises(CommandError, match="the server answered 503"):
        Client().get("tasks")


@pytest.mark.usefixtures("api")
def test_a_problem_is_told_in_the_servers_words(scope: Run) -> None:
    """The server's reason is printed in one line, with status 1."""
    assert scope("nodes") == (1, "", "scope: nothing is at nodes\n")


@pytest.mark.usefixtures("api")
def test_nobody_there_is_told(scope: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no server answers, the message has the address, the reason and the remedy."""
    monkeypatch.setenv("SCOPE_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("SCOPE_URL", "http://127.0.0.1:1")
    status, _, said = scope("tasks")
    assert (status, said) == (
        1,
        "scope: no server answers at http://127.0.0.1:1 ([Errno 111] Connection refused); start one with `scope up`\n",
    )


@pytest.mark.usefixtures("api")
def test_a_silent_listener_is_not_waited_for() -> None:
    """A listener that never answers is an error after the timeout."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Client(Access(f"http://127.0.0.1:{silent.getsockname()[1]}", token="a token"), timeout_s=0.2)
        with pytest.raises(CommandError, match=r"no answer from http://127\.0\.0\.1:\d+ within 0\.2 s; .*try again"):
            client.get("health")


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize(
    "token_file",
    [
        (None, 0, "does not exist"),
        ("", 0o600, "contains no token"),
        ("short", 0o600, "contains no token"),
        ("0123456789abcdef\x00\x01", 0o600, "contains no token"),
        ("0123456789abcdef", 0o644, "run `chmod 600 "),
    ],
)
def test_a_damaged_token_is_told_at_once(
    scope: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, token_file: tuple[str | None, int, str]
) -> None:
    """A missing or invalid token is reported in one line, with the file and the problem."""
    token = tmp_path / "token"
    content, mode, said = token_file
    monkeypatch.setenv("SCOPE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("SCOPE_TOKEN_FILE", str(token))
    token.unlink()
    if content is not None:
        token.write_text(content)
        token.chmod(mode)
    status, out, error = scope("tasks")
    assert (status, out, error.count("\n")) == (1, "", 1)
    assert said in error and str(token) in error
