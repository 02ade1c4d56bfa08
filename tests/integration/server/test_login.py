"""The API over HTTPS, and `scope login`."""

import asyncio
import json
import os
import pty
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.integration.server.running import Server, until

from scope_server.identity.authority import Authority
from scope_server.limits import Rate
from scope_wire.https import calling
from scope_wire.identity import SERVER_NAME
from scope_wire.join_token import fingerprint_of
from scope_wire.keys import pem_of

StartServer = Callable[..., Any]
OTHER = "SHA256:" + 43 * "A"
EMAIL, PASSWORD = "ada@example.org", "correct horse battery"


@pytest.fixture
async def server(start_server: StartServer) -> AsyncIterator[Server]:
    """A server that other machines reach."""
    async with start_server(prepared=False, http="0.0.0.0:0") as started:
        await until(lambda: started.ask("GET", "users"), lambda answer: answer[0] == 200)
        user = {"email": EMAIL, "password": PASSWORD, "role": "admin"}
        assert (await started.ask("POST", "users", json=user))[0] == 201
        yield started


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The configuration directory of the user who logs in."""
    return tmp_path / "home"


def url_of(server: Server) -> str:
    return f"https://127.0.0.1:{server.http.rpartition(':')[2]}"


def _environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCOPE_")}
    return {**kept, "XDG_CONFIG_HOME": str(home), "HOME": str(home)}


async def scope(home: Path, *words: str, says: str = "") -> tuple[int | None, str, str]:
    """Runs a command without a terminal, with a line of input; returns status, output and errors."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scope_cli.main", *words),
        env=_environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, said = await process.communicate(f"{says}\n".encode() if says else None)
    return process.returncode, out.decode(), said.decode()


def trusting(server: Server) -> ssl.SSLContext:
    """For a client that trusts the server's authority."""
    return calling(pem_of(server.authority.certificate).decode())


async def _asked(
    server: Server, scheme: str, context: ssl.SSLContext | None, token: str = "", of: str = "nodes"
) -> int:
    """The status of a request with this token."""
    address = f"{scheme}://127.0.0.1:{server.http.rpartition(':')[2]}/api/v1/{of}"
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        given: dict[str, Any] = {"ssl": context, "server_hostname": SERVER_NAME} if context else {}
        async with session.get(address, **given) as answer:
            return answer.status


async def test_others_reach_it_by_tls_1_3_only(server: Server) -> None:
    """Off loopback, the API is served with TLS 1.3, by a certificate of the authority; there is no plain text."""
    assert await _asked(server, "https", trusting(server)) == 401
    with pytest.raises(aiohttp.ClientError):
        await _asked(server, "http", None)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(aiohttp.ClientError):
        await _asked(server, "https", old)


async def test_a_login_lasts(server: Server, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the right fingerprint and password, all later commands ask this server, until a logout. What shows at the
    next login that its owner is no stranger is kept after it, and shown."""
    monkeypatch.setattr("scope_server.accounts.throttle._STRANGERS", Rate(1, 2))  # the first login is one
    right = fingerprint_of(server.authority.certificate)
    status, said, _ = await scope(
        home, "login", url_of(server), "--fingerprint", right, "--email", EMAIL, says=PASSWORD
    )
    assert status == 0
    assert said == f"commands now ask {url_of(server)}; `scope logout` ends this\n"
    assert await scope(home, "nodes", "--json") == (0, "[]\n", "")
    assert await scope(home, "admin", "fingerprint") == (0, f"{right}\n", "")
    kept = json.loads((home / "scope" / "login.json").read_text())
    assert await _asked(server, "https", trusting(server), kept["token"]) == 200
    assert await scope(home, "logout") == (0, "logged out\n", "")
    assert await _asked(server, "https", trusting(server), kept["token"]) == 401
    assert not (home / "scope" / "login.json").exists()
    devices = home / "scope" / "devices.json"
    assert devices.stat().st_mode & 0o777 == 0o600
    (before,) = json.loads(devices.read_text()).values()
    guess = {"email": EMAIL, "password": "a guess"}
    assert [(await server.ask("POST", "auth/login", json=guess))[0] for _ in range(2)] == [401, 429]
    server.query("UPDATE store.logins SET address = '198.51.100.1'")
    words = ("login", url_of(server), "--fingerprint", right, "--email", EMAIL)
    assert (await scope(home, *words, says=PASSWORD))[0] == 0
    (after,) = json.loads(devices.read_text()).values()
    assert after != before


async def test_a_wrong_fingerprint_or_password_keeps_nothing(server: Server, home: Path) -> None:
    """What is not trusted, or not accepted, is refused with the reason, and nothing is kept."""
    right, url = fingerprint_of(server.authority.certificate), url_of(server)
    who = ("--email", EMAIL)
    for words, said in (
        ((url, "--fingerprint", OTHER, *who), f"the fingerprint {right}, not {OTHER}"),
        ((url, *who), f"has the fingerprint {right}; give it as --fingerprint"),
        ((url, "--fingerprint", right), "give --email, and the password on standard input"),
        ((url, "--fingerprint", right, *who), "no account has this email and password"),
        ((url.replace("https", "http"),), "is not https://HOST:PORT"),
        ((f"{url}/api",), "is not https://HOST:PORT"),
        (("https://127.0.0.1:1",), "no server answers at https://127.0.0.1:1"),
    ):
        status, out, heard = await scope(home, "login", *words, says="a wrong password")
        assert (status, out) != (0, ""), words
        assert said in heard
        assert heard.count("\n") == 1
    assert not home.exists() or not list(home.rglob("login.json"))


async def test_the_fingerprint_is_asked_on_a_terminal(server: Server, home: Path) -> None:
    """On a terminal, the fingerprint is shown and the password asked, and not echoed; only `yes` goes on."""
    for answers, ends in (("no\n", "not logged in"), (f"yes\n{EMAIL}\n{PASSWORD}\n", "commands now ask")):
        screen = await asyncio.to_thread(_on_a_terminal, home, answers, "login", url_of(server))
        assert fingerprint_of(server.authority.certificate) in screen
        assert ends in screen
        assert PASSWORD not in screen
    assert (await scope(home, "nodes", "--json"))[0] == 0


def _on_a_terminal(home: Path, answers: str, *words: str) -> str:
    """Runs a command on a terminal, gives each answer when it is asked for, and returns what the terminal showed."""
    child, terminal = pty.fork()
    if not child:
        os.execve(sys.executable, [sys.executable, "-m", "scope_cli.main", *words], _environment(home))
    shown, left = b"", answers.splitlines(keepends=True)
    try:
        while read := os.read(terminal, 4096):
            shown += read
            if left and (b"type yes", b"Email: ", b"Password: ")[len(answers.splitlines()) - len(left)] in shown:
                os.write(terminal, left.pop(0).encode())
    except OSError:  # the command has ended
        pass
    os.close(terminal)
    os.waitpid(child, 0)
    return shown.decode()


async def test_another_server_in_its_place_is_refused(server: Server, home: Path, tmp_path: Path) -> None:
    """A server of another authority than the login's gets no token, at the same address or not."""
    right, url = fingerprint_of(server.authority.certificate), url_of(server)
    words = ("login", url, "--fingerprint", right, "--email", EMAIL)
    assert (await scope(home, *words, says=PASSWORD))[0] == 0
    file = home / "scope" / "login.json"
    other = pem_of(Authority(tmp_path / "other").certificate).decode()
    file.write_text(json.dumps(json.loads(file.read_text()) | {"authority": other}))
    status, _, said = await scope(home, "nodes")
    assert status == 1
    assert said.startswith(f"scope: {url} shows a certificate of another authority than expected")


async def test_a_login_goes_on_by_itself(server: Server, home: Path) -> None:
    """Commands whose access token has expired get the next tokens, also several at the same time."""
    right, url = fingerprint_of(server.authority.certificate), url_of(server)
    assert (await scope(home, "login", url, "--fingerprint", right, "--email", EMAIL, says=PASSWORD))[0] == 0
    file = home / "scope" / "login.json"
    before = json.loads(file.read_text())
    file.write_text(json.dumps(before | {"token": "expired"}))
    ran = await asyncio.gather(*(scope(home, "nodes", "--json") for _ in range(4)))
    assert ran == [(0, "[]\n", "")] * 4
    after = json.loads(file.read_text())
    assert after["refresh_token"] != before["refresh_token"]
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_token_for_scripts(server: Server, home: Path) -> None:
    """Who has logged in makes one; a script with it may do what it is for, until it is revoked."""
    right, url = fingerprint_of(server.authority.certificate), url_of(server)
    assert (await scope(home, "login", url, "--fingerprint", right, "--email", EMAIL, says=PASSWORD))[0] == 0
    status, token, _ = await scope(home, "token", "make", "ci")
    assert status == 0
    assert await _asked(server, "https", trusting(server), token.strip()) == 200
    refused = await _asked(server, "https", trusting(server), token.strip(), "audit")
    _, listed, _ = await scope(home, "token", "list")
    assert refused == 403
    assert (await scope(home, "token", "revoke", listed.split()[0]))[0] == 0
    assert await _asked(server, "https", trusting(server), token.strip()) == 401
